// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tw::splits {

/// What the division of a module is to achieve.
enum class SplitGoal {
  fastest,       ///< the shortest time of a step; what does not pay stays whole
  least_memory,  ///< the fewest bytes of parameters on a rank; then the fewest bytes sent
};

/// "fastest", "least_memory".
inline std::vector<std::pair<std::string, SplitGoal>> split_goal_names() {
  return {{"fastest", SplitGoal::fastest}, {"least_memory", SplitGoal::least_memory}};
}

struct SplitOptions {
  int ranks = 2;
  SplitGoal goal = SplitGoal::fastest;
  std::vector<std::string> whole = {};  ///< names of parameters that every rank must have whole
  /// The link between the ranks. The default describes shared memory within a node.
  double latency_s = 5e-6;
  double bytes_per_second = 4e9;
};

}  // namespace tw::splits
