// SPDX-License-Identifier: Apache-2.0
#include "coarsening.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

namespace tw::pipeline {
namespace {

/// Positions where a block may begin: all except those inside a pinned range.
std::vector<int> allowed_cuts(const OperatorOrder& order, const std::vector<std::pair<int, int>>& pinned) {
  std::vector<int> change(static_cast<size_t>(order.size()) + 2, 0);
  for (const auto& [first, last] : pinned) {
    ++change[static_cast<size_t>(first) + 1];
    --change[static_cast<size_t>(last) + 1];
  }
  std::vector<int> cuts;
  int inside = 0;
  for (int p = 0; p <= order.size(); ++p) {
    inside += change[static_cast<size_t>(p)];
    if (inside == 0) cuts.push_back(p);
  }
  return cuts;
}

/// Weight of all operators before each position: their share of the total time plus their share of the total memory.
std::vector<double> weights_before(const OperatorOrder& order, double rows) {
  std::vector<double> time{0};
  std::vector<double> memory{0};
  for (int p = 0; p < order.size(); ++p) {
    const ProfiledOperator& op = order.profile().operators[static_cast<size_t>(order.operator_at(p))];
    double bytes = op.saved_bytes.of(rows);
    for (const int parameter : op.parameters) bytes += order.profile().parameters[static_cast<size_t>(parameter)].bytes;
    time.push_back(time.back() + op.forward.of(rows) + op.backward.of(rows));
    memory.push_back(memory.back() + bytes);
  }
  const double all_time = std::max(time.back(), std::numeric_limits<double>::min());
  const double all_memory = std::max(memory.back(), std::numeric_limits<double>::min());
  // A small weight for each operator makes weights strictly increasing.
  for (size_t p = 0; p < time.size(); ++p) time[p] = time[p] / all_time + memory[p] / all_memory + 1e-6 * static_cast<double>(p) / order.size();
  return time;
}

}  // namespace

std::vector<std::pair<int, int>> pinned_ranges(const OperatorOrder& order, const std::vector<std::vector<std::string>>& together) {
  if (together.empty()) return {};
  std::map<std::string_view, int> position_of;
  for (int p = 0; p < order.size(); ++p) position_of[order.profile().operators[static_cast<size_t>(order.operator_at(p))].name] = p;
  std::vector<std::pair<int, int>> ranges;
  for (const std::vector<std::string>& names : together) {
    int first = order.size();
    int last = 0;
    for (const std::string& name : names) {
      const auto found = position_of.find(name);
      TW_EXPECTS(found != position_of.end(), "together: there is no operator \"", name, "\" that uses batch data");
      first = std::min(first, found->second);
      last = std::max(last, found->second);
    }
    if (first < last) ranges.emplace_back(first, last);
  }
  return ranges;
}

std::vector<int> coarsen(const OperatorOrder& order, const std::vector<std::pair<int, int>>& pinned, int max_blocks, double rows) {
  std::vector<int> cuts = allowed_cuts(order, pinned);
  if (static_cast<int>(cuts.size()) - 1 <= max_blocks) return cuts;
  const std::vector<double> before = weights_before(order, rows);
  const double block = before.back() / max_blocks;
  std::vector<int> begins{0};
  size_t next = 1;
  for (int k = 1; k < max_blocks; ++k) {
    // Consider cuts within half a block of the ideal position. Choose those with the fewest bytes, and the nearest of these.
    const double ideal = block * k;
    size_t best = 0;
    double best_penalty = infinity;
    double fewest = infinity;
    size_t end = next;
    for (; end + 1 < cuts.size() && before[static_cast<size_t>(cuts[end])] < ideal + block / 2; ++end) {
      fewest = std::min(fewest, order.border(cuts[end]).of(rows));
    }
    for (; next < end; ++next) {
      const double distance = std::abs(before[static_cast<size_t>(cuts[next])] - ideal) / block;
      const double bytes = order.border(cuts[next]).of(rows);
      const double penalty = distance + (fewest > 0 ? bytes / fewest : bytes > 0 ? 2 : 1);
      if (penalty < best_penalty) {
        best_penalty = penalty;
        best = next;
      }
    }
    if (std::isfinite(best_penalty)) begins.push_back(cuts[best]);
  }
  begins.push_back(order.size());
  return begins;
}

}  // namespace tw::pipeline
