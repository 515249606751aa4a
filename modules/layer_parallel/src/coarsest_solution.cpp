// SPDX-License-Identifier: Apache-2.0
#include "coarsest_solution.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/comm/collectives.hpp>

#include "states.hpp"

namespace tw::layer_parallel {
namespace {

/// The right-hand sides of all points.
class RightSidesOfAll {
 public:
  /// Collective.
  RightSidesOfAll(const Communicator& comm, const LevelPlan& plan, int level, const Stored& mine, Report& report) : plan_(plan), level_(level) {
    int64_t most = 0;
    for (int rank = 0; rank < plan.ranks(); ++rank) most = std::max(most, plan.points_of(level, rank).size());
    const Stopwatch watch;
    for (const at::Tensor& f : mine.states) {
      std::vector<int64_t> shape = f.sizes().vec();
      shape[0] = most;
      const at::Tensor padded = at::empty(shape, f.options());  // what is behind the points of a rank is never read
      padded.narrow(0, 0, f.size(0)).copy_(f);
      shape.insert(shape.begin(), plan.ranks());
      of_all_.push_back(at::empty(shape, f.options()));
      allgather(comm, padded, of_all_.back());
      ++report.messages[static_cast<size_t>(level)];
      report.bytes += static_cast<int64_t>(padded.nbytes());
    }
    report.waited += watch.elapsed();
  }

  /// Stacked, of one point.
  State at(int64_t point) const {
    const int rank = plan_.home(level_, point);
    return rows(row(of_all_, rank), point - plan_.points_of(level_, rank).begin, 1);
  }

 private:
  const LevelPlan& plan_;
  int level_;
  State of_all_;  // by rank and point
};

}  // namespace

void solve_everywhere(const Communicator& comm, const LevelPlan& plan, int level, Propagator& propagator, const State& origin, const Stored* f,
                      const std::function<void(int64_t point, const State& values)>& take, Report& report) {
  std::optional<RightSidesOfAll> right_sides;
  if (f != nullptr) right_sides.emplace(comm, plan, level, *f, report);
  const auto mine = plan.points_of(level, comm.rank());
  const int64_t steps = mine.size() == 0 ? 0 : mine.end - 1;
  if (steps == 0) return;
  const auto arrive = [&](int64_t j, const State& raw) {
    const int64_t point = j + 1;
    State values = right_sides ? sum(raw, right_sides->at(point)) : raw;
    if (mine.contains(point)) take(point, values);
    return values;
  };
  const State from = each(origin, [](const at::Tensor& t) { return t.unsqueeze(0); });
  const Runs runs{.first = 0, .count = 1, .spacing = steps, .length = steps};
  arrive(steps - 1, propagator.march({plan, level, runs, false}, from, arrive));
  report.steps[static_cast<size_t>(level)] += steps;
}

}  // namespace tw::layer_parallel
