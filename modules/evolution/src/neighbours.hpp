// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Visits configurations that differ from `values` in one parameter with several values, in random order. Numbers move one step up or down; choices
/// change to any other one. Parameters that exist only in the neighbour are drawn. @param takes called with each until it returns true
/// @return whether `takes` returned true
bool any_neighbour(const Space& space, const std::vector<double>& values, CounterRng& random,
                   const std::function<bool(std::vector<double> neighbour)>& takes);

}  // namespace tw::search
