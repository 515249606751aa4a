// SPDX-License-Identifier: Apache-2.0
// Propagators by name, and what they come to on functions of numbers.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tw/evolution/population.hpp>
#include <tw/evolution/propagator.hpp>
#include <vector>

namespace tw::testing {

/// One of named_propagators(), of one worker that searches alone. @param space borrowed. @throws ContractError for a name that there is not
std::unique_ptr<search::Propagator> propagator_named(const std::string& name, const search::Space& space, int64_t evaluations, uint64_t seed);

struct SearchSettings {
  int64_t evaluations = 0;
  size_t in_flight = 1;  ///< trials at a time, which end in the order in which they began
  uint64_t seed = 1;
};

/// All trials with their losses, in the order in which they ended. @param loss of values of the space, for the trial of this number
search::Population searched(search::Propagator& propagator, const std::function<double(const std::vector<double>&, int64_t trial)>& loss,
                            const SearchSettings& settings);

}  // namespace tw::testing
