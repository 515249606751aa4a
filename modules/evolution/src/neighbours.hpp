// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Configurations that differ from `values` in one parameter that has a number of values: numbers by one step up or down, choices by any other one,
/// all in random order. What exists only then is drawn. @param takes called with each, until it says that this one will do
/// @return whether one will do
bool any_neighbour(const Space& space, const std::vector<double>& values, CounterRng& random,
                   const std::function<bool(std::vector<double> neighbour)>& takes);

}  // namespace tw::search
