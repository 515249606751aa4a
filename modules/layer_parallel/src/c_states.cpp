// SPDX-License-Identifier: Apache-2.0
#include "c_states.hpp"

#include <ATen/ops/empty.h>

#include <tw/comm/collectives.hpp>
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel {

Stored exchange_c_states(const Communicator& comm, const LevelPlan& plan, const Solution& solution, const State& example) {
  const auto is_c_point = [&](int64_t point) { return plan.level(0).is_c_point(point); };
  const auto steps = plan.steps_of(0, comm.rank());
  const auto points = plan.points_of(0, comm.rank());
  Stored mine{solution.points, solution.first, solution.spacing};
  std::vector<Work> sends;
  const int64_t last = points.end - 1;
  if (points.size() > 0 && last < plan.level(0).steps && is_c_point(last) && plan.executor(0, last) != comm.rank()) {
    for (const at::Tensor& tensor : clone(mine.at(last))) sends.push_back(isend(comm, tensor, Rank(plan.executor(0, last))));
  }
  if (steps.size() > 0 && is_c_point(steps.begin) && plan.home(0, steps.begin) != comm.rank()) {
    const State border = each(example, [](const at::Tensor& t) { return at::empty(t.sizes(), t.options()).unsqueeze(0); });
    for (const at::Tensor& tensor : border) recv(comm, tensor, Rank(plan.home(0, steps.begin)));
    mine = {mine.states.empty() || mine.states[0].size(0) == 0 ? border : concatenate({border, mine.states}), steps.begin, solution.spacing};
  }
  wait_all(sends);
  return mine;
}

}  // namespace tw::layer_parallel
