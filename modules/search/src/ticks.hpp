// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/evolution/space.hpp>
#include <vector>

#include "axis.hpp"

namespace tw::search {

/// A label next to an axis. `place` is 0 to 1 along it.
struct Tick {
  double place = 0;
  std::string label = {};
};

std::vector<Tick> ticks_of(const Axis& axis);
/// Ticks for an axis of the parameter's values, placed by Space::to_unit(): some round numbers, or at most 12 choices.
std::vector<Tick> ticks_of(const Space& space, size_t parameter);

}  // namespace tw::search
