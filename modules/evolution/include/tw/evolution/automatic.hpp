// SPDX-License-Identifier: Apache-2.0
// Which propagator suits a search, from its space and budget alone.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

enum class Method {
  sobol,  ///< cover the space
  genetic,
  gaussian_process,
  tpe,     ///< densities of good and of bad configurations
  nsga2,   ///< fronts of several objectives
  hybrid,  ///< a trust region with quadratic models first, and then CMA-ES with restarts
};

/// "sobol", "genetic", ...
const char* name_of(Method method) noexcept;

struct Choice {
  Method method;
  std::string reason;  ///< a sentence
};

/// Parameters are numbers if half of them at least are on a scale - real ones, or whole or ordinal ones of at least 8 values -, fewer than a quarter
/// have conditions, and D = space.dimensions() is at most 200. With several objectives it is NSGA-II.
/// Otherwise the first that holds, of the evaluations of all workers together:
/// a. fewer than 3 D evaluations: there is too little to learn from; cover the space evenly;
/// b. numbers: quadratic models of the loss while evaluations are few, and then CMA-ES with restarts;
/// c. at most 300 evaluations in at most 200 dimensions: a Gaussian process; at most 2,000: TPE;
/// d. otherwise genetic.
/// @throws ContractError for less than one evaluation or objective
Choice choose(const Space& space, int64_t evaluations, size_t objectives = 1);

/// The propagator that choose() names. @param space borrowed. @param evaluations 0: no limit. @param worker 0 to workers - 1, among the workers that
/// search together
std::unique_ptr<Propagator> automatic(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers, size_t objectives = 1);

}  // namespace tw::search
