// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <tw/base/clock.hpp>

namespace tw::parameter_server {

/// Statistics of the communication between a worker and the servers.
struct Traffic {
  int64_t pushes = 0;
  int64_t pulls = 0;
  Seconds waited{0};  ///< time spent waiting for answers and, if the algorithm requires it, for other workers
  /// Histogram of this worker's pushes by staleness: the number of other workers' pushes since this worker's last pull. The last entry counts all
  /// larger values, too.
  std::array<int64_t, 33> staleness = {};
};

}  // namespace tw::parameter_server
