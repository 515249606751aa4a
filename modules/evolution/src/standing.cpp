// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/standing.hpp>

#include <algorithm>
#include <cmath>

namespace tw::search {

std::vector<double> merits(std::span<const Standing> standings) {
  double least = std::numeric_limits<double>::infinity();
  double worst = -least;
  double max_violation = 0;
  for (const Standing& each : standings) {
    if (!std::isfinite(each.rank_value())) continue;
    if (each.is_allowed()) {
      least = std::min(least, each.loss);
      worst = std::max(worst, each.loss);
    } else {
      max_violation = std::max(max_violation, each.violation);
    }
  }
  const double offset = worst >= least ? worst : 0;
  const double max_above = worst > least && std::isfinite(worst - least) ? worst - least : max_violation;
  std::vector<double> numbers;
  for (const Standing& each : standings) {
    const bool failed = std::isinf(each.violation);
    numbers.push_back(each.is_allowed() || failed ? each.loss : offset + each.violation / max_violation * max_above);
  }
  return numbers;
}

}  // namespace tw::search
