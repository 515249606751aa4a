// SPDX-License-Identifier: Apache-2.0
// Which propagator suits a search, from its space and budget alone.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

enum class Method {
  sobol,            ///< cover the space
  latin_hypercube,  ///< the same, with more parameters than Sobol sequences have
  genetic,
  mixture,  ///< of CMA-ES with restarts, and genetic breeding, which finds its way where minima are many
};

/// "sobol", "latin_hypercube", ...
const char* name_of(Method method) noexcept;

struct Choice {
  Method method;
  std::string reason;  ///< a sentence
};

/// The first that holds, of D = space.dimensions() and the evaluations of all workers together:
/// a. fewer than 10 D evaluations: there is too little to learn from; cover the space evenly;
/// b. fewer than half of the parameters on a scale - real ones, or whole or ordinal ones of at least 8 values -, or at least a quarter of them with
///    conditions: genetic, since neighbours mean little there;
/// c. fewer than 50 D evaluations: genetic, since a covariance matrix is not learnt in fewer;
/// d. otherwise a mixture of CMA-ES with restarts and genetic breeding.
/// @throws ContractError for less than one evaluation
Choice choose(const Space& space, int64_t evaluations);

/// The propagator that choose() names. @param space borrowed. @param evaluations 0: as many as can be. @param worker 0 to workers - 1, of those that
/// search together
std::unique_ptr<Propagator> automatic(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers);

}  // namespace tw::search
