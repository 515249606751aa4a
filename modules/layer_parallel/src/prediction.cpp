// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/prediction.hpp>

#include <algorithm>
#include <tw/layer_parallel/sweep.hpp>

namespace tw::layer_parallel {
namespace {

/// Steps until the last rank has finished the sweep, when nobody waits longer than for the message that it needs.
int64_t length_of(const LevelPlan& plan, int level, SweepKind kind) {
  using enum Action::Kind;
  int64_t longest = 0;
  int64_t carried = 0;  // when the message over the border is sent
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    int64_t now = 0;
    int64_t sent = carried;
    for (const Action& action : plan_sweep(plan, level, kind, rank)) {
      if (action.kind == march) now += action.runs.count * action.runs.length;
      if (action.kind == receive_point || action.kind == receive_result) now = std::max(now, carried);
      if (action.kind == send_point || action.kind == send_result) sent = now;
    }
    carried = sent;
    longest = std::max(longest, now);
  }
  return longest;
}

int64_t length_of(const LevelPlan& plan, const Phase& phase) {
  switch (phase.kind) {
    case Phase::Kind::relax: return length_of(plan, phase.level, SweepKind::intervals);
    case Phase::Kind::restrict: return length_of(plan, phase.level, SweepKind::intervals) + length_of(plan, phase.level + 1, SweepKind::each);
    case Phase::Kind::solve: return phase.level == 0 ? 0 : length_of(plan, phase.level, SweepKind::all);
    case Phase::Kind::fill: return length_of(plan, phase.level, SweepKind::fill);
    default: return 0;
  }
}

}  // namespace

int64_t longest_way(const LevelPlan& plan, const PassOptions& pass) {
  int64_t steps = length_of(plan, 0, SweepKind::all);
  for (int i = 0; plan.levels() > 1 && i < pass.iterations; ++i) {
    for (const Phase& phase : plan_cycle(plan.levels(), pass.cycle, i == 0)) steps += length_of(plan, phase);
  }
  return steps;
}

Prediction predict(const LevelPlan& plan, const PassOptions& forward, const PassOptions& backward) {
  Prediction result;
  result.serial = 3 * static_cast<double>(plan.level(0).steps);
  result.parallel = static_cast<double>(longest_way(plan, forward)) + 2 * static_cast<double>(longest_way(plan, backward));
  result.speed_up = result.serial / result.parallel;
  return result;
}

}  // namespace tw::layer_parallel
