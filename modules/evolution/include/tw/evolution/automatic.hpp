// SPDX-License-Identifier: Apache-2.0
// Selects a propagator for a search from its space, its budget and its number of objectives alone.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

enum class Method {
  sobol,  ///< an even cover of the space
  genetic,
  gaussian_process,
  tpe,     ///< compares the densities of good and of bad configurations
  nsga2,   ///< Pareto fronts of several objectives
  hybrid,  ///< a trust region with quadratic models, then CMA-ES with restarts
};

/// "sobol", "genetic", ...
const char* name_of(Method method) noexcept;

struct Choice {
  Method method;
  std::string reason;  ///< one sentence
};

/// Chooses NSGA-II for several objectives; otherwise, the first rule below that applies decides. `evaluations` counts those of all workers together,
/// and D is space.dimensions(). A space counts as numeric if D is at most 200, at least half of its parameters lie on a scale, and fewer than a
/// quarter have conditions. Real parameters lie on a scale, and so do integer and ordinal ones with at least 8 values.
/// a. fewer than 3 * D evaluations, too few to learn from: cover the space evenly;
/// b. a numeric space: quadratic models of the loss at first, then CMA-ES with restarts;
/// c. D is at most 200: a Gaussian process for at most 300 evaluations, TPE for at most 2,000;
/// d. otherwise: genetic search.
/// @throws ContractError for fewer than one evaluation or objective
Choice choose(const Space& space, int64_t evaluations, size_t objectives = 1);

/// Makes the propagator that choose() selects. @param space copied. @param evaluations of all workers together; 0: no limit. @param seed the same on
/// all workers. @param worker index of this worker among the `workers` that search together
std::unique_ptr<Propagator> automatic(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers, size_t objectives = 1);

}  // namespace tw::search
