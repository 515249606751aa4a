// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/evolution/space.hpp>
#include <vector>

#include "axis.hpp"

namespace tw::search {

/// A word beside an axis, at 0 to 1.
struct Tick {
  double place = 0;
  std::string label = {};
};

std::vector<Tick> ticks_of(const Axis& axis);
/// Of an axis of the parameter's values at Space::to_unit(): some round numbers, and of choices 12 at most.
std::vector<Tick> ticks_of(const Space& space, size_t parameter);

}  // namespace tw::search
