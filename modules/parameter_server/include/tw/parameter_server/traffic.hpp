// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <tw/base/clock.hpp>

namespace tw::parameter_server {

/// What a worker and the servers have had to do with each other.
struct Traffic {
  int64_t pushes = 0;
  int64_t pulls = 0;
  Seconds waited{0};  ///< for answers, and, where the algorithm asks for that, for other workers
  /// Pushes by their age: how many pushes of other workers had come since this worker's last pull. The last entry is that many or more.
  std::array<int64_t, 33> staleness = {};
};

}  // namespace tw::parameter_server
