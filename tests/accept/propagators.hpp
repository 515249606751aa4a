// SPDX-License-Identifier: Apache-2.0
// Propagators by name, and searches with them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tw/evolution/population.hpp>
#include <tw/evolution/propagator.hpp>
#include <vector>

namespace tw::testing {

/// One of named_propagators(), as a single worker. @param space kept by reference. @throws ContractError for an unknown name
std::unique_ptr<search::Propagator> propagator_named(const std::string& name, const search::Space& space, int64_t evaluations, uint64_t seed);

struct SearchSettings {
  int64_t evaluations = 0;
  size_t in_flight = 1;  ///< number of concurrent trials, which end in the order in which they began
  uint64_t seed = 1;
};

/// All trials with their losses, in the order in which they ended. @param loss of the values, for the trial of this number
search::Population searched(search::Propagator& propagator, const std::function<double(const std::vector<double>&, int64_t trial)>& loss,
                            const SearchSettings& settings);

}  // namespace tw::testing
