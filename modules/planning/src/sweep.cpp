// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/sweep.hpp>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::layer_parallel {
namespace {

/// One sweep, as derived from the plan.
struct View {
  const LevelPlan& plan;
  int level;
  SweepKind kind;

  const Level& grid() const { return plan.level(level); }

  /// Whether the sweep includes this step.
  bool makes(int64_t step) const {
    if (step < 0 || step >= grid().steps) return false;
    switch (kind) {
      case SweepKind::intervals: return !grid().coarsest() && step < grid().steps / grid().coarsening * grid().coarsening;
      case SweepKind::fill: return !grid().is_c_point(step + 1);
      case SweepKind::all:
      case SweepKind::each: return true;
    }
    return false;
  }

  /// Whether the step from this point starts from the stored value instead of the result of the previous step.
  bool is_start(int64_t point) const { return kind == SweepKind::each || grid().is_c_point(point); }
};

/// The runs of `rank`, ascending. Equally spaced runs of equal length form one entry, except for a first run that must wait for its start value.
std::vector<Runs> runs_of(const View& view, int rank) {
  std::vector<Runs> all;
  const auto [begin, end] = view.plan.steps_of(view.level, rank);
  for (int64_t step = begin; step < end;) {
    if (!view.makes(step)) {
      ++step;
      continue;
    }
    const int64_t first = step++;
    while (step < end && view.makes(step) && !view.is_start(step)) ++step;
    const int64_t length = step - first;
    if (!all.empty()) {
      Runs& last = all.back();
      const int64_t spacing = first - last.begin(last.count - 1);
      if (view.is_start(last.first) && last.length == length && (last.count == 1 || last.spacing == spacing)) {
        last.spacing = spacing;
        ++last.count;
        continue;
      }
    }
    all.push_back({.first = first, .count = 1, .spacing = length, .length = length});
  }
  return all;
}

}  // namespace

// Each rank has a contiguous block, so it receives at most once in a sweep: either the start of its first step, or the result of another rank's step
// at its first point. The same holds for sends, at its end.
std::vector<Action> plan_sweep(const LevelPlan& plan, int level, SweepKind kind, int rank) {
  using enum Action::Kind;
  const View view{plan, level, kind};
  const auto steps = plan.steps_of(level, rank);
  const auto points = plan.points_of(level, rank);
  std::vector<Runs> runs = runs_of(view, rank);
  std::vector<Action> actions;

  // A point where another rank's step starts is sent immediately if its value is stored, otherwise once it is known.
  const int64_t last_point = points.end - 1;
  const bool passes_on = points.size() > 0 && view.makes(last_point) && plan.executor(level, last_point) != rank;
  const auto pass_on = [&] { actions.push_back({send_point, last_point, plan.executor(level, last_point)}); };
  if (passes_on && view.is_start(last_point)) pass_on();

  // Messages from the left neighbour.
  const int64_t first_point = points.begin;
  const bool result_comes = points.size() > 0 && view.makes(first_point - 1) && plan.executor(level, first_point - 1) != rank;
  const auto receive_result_now = [&] { actions.push_back({receive_result, first_point, plan.executor(level, first_point - 1)}); };
  const bool result_comes_first = result_comes && !view.is_start(first_point);
  const bool point_comes = steps.size() > 0 && view.makes(steps.begin) && plan.home(level, steps.begin) != rank;

  // Runs go from right to left. The value that the right neighbour waits for is then sent early, and messages from the left have time to arrive. A
  // rank whose runs form a single entry must wait first.
  for (size_t i = runs.size(); i-- > 0;) {
    if (i == 0 && point_comes) actions.push_back({receive_point, steps.begin, plan.home(level, steps.begin)});
    if (i == 0 && result_comes_first) receive_result_now();
    actions.push_back({march, 0, -1, runs[i]});
    if (i + 1 < runs.size()) continue;
    const int64_t end = runs[i].end(runs[i].count - 1);
    const int home = plan.home(level, end);
    if (home != rank) actions.push_back({send_result, end, home});
    if (passes_on && !view.is_start(last_point) && last_point == end) pass_on();
  }
  if (result_comes && !(result_comes_first && !runs.empty())) receive_result_now();
  const bool passed = std::any_of(actions.begin(), actions.end(), [](const Action& a) { return a.kind == send_point; });
  if (passes_on && !passed) pass_on();
  return actions;
}

SweepCost cost_of(const std::vector<Action>& sweep) {
  SweepCost cost;
  for (const Action& action : sweep) {
    if (action.kind == Action::Kind::march) cost.steps += action.runs.count * action.runs.length;
    if (action.kind == Action::Kind::send_point || action.kind == Action::Kind::send_result) ++cost.messages;
  }
  return cost;
}

}  // namespace tw::layer_parallel
