// SPDX-License-Identifier: Apache-2.0
// Selects a propagator for a search from its space and budget alone.
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
  tpe,     ///< densities of good and of bad configurations
  nsga2,   ///< Pareto fronts of several objectives
  hybrid,  ///< a trust region with quadratic models, then CMA-ES with restarts
};

/// "sobol", "genetic", ...
const char* name_of(Method method) noexcept;

struct Choice {
  Method method;
  std::string reason;  ///< one sentence
};

/// Chooses NSGA-II for several objectives. Otherwise the first rule below that applies decides. Evaluations are those of all workers together; D is
/// space.dimensions(). A space counts as numeric if D is at most 200, at least half of its parameters lie on a scale, and fewer than a quarter have
/// conditions. Real parameters lie on a scale, and so do integer and ordinal ones with at least 8 values.
/// a. fewer than 3 D evaluations, too few to learn from: cover the space evenly;
/// b. a numeric space: quadratic models of the loss at first, then CMA-ES with restarts;
/// c. at most 300 evaluations in at most 200 dimensions: a Gaussian process; at most 2,000: TPE;
/// d. otherwise: genetic search.
/// @throws ContractError for less than one evaluation or objective
Choice choose(const Space& space, int64_t evaluations, size_t objectives = 1);

/// The propagator that choose() names. @param space copied. @param evaluations 0: no limit. @param worker index of this worker among the `workers`
/// that search together
std::unique_ptr<Propagator> automatic(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers, size_t objectives = 1);

}  // namespace tw::search
