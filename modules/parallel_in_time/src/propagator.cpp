// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_in_time/propagator.hpp>

#include <tw/base/contract.hpp>
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel {

at::Tensor transposed(const at::Tensor& jacobian, JacobianKind kind) {
  return kind == JacobianKind::full ? jacobian.transpose(-1, -2) : jacobian.transpose(-2, -3);
}

State StepwisePropagator::march(const March& march, const State& from, const Between& between) {
  const auto& [first, count, spacing, length] = march.runs;
  std::vector<State> states;
  for (int64_t run = 0; run < count; ++run) states.push_back(row(from, run));
  for (int64_t j = 0; j < length; ++j) {
    for (int64_t run = 0; run < count; ++run) {
      State& state = states[static_cast<size_t>(run)];
      const State next = step_(march, march.runs.begin(run) + j, state);
      TW_EXPECTS(alike(next, state), "step ", march.runs.begin(run) + j, " of level ", march.level, " changes the state from ", describe(state),
                 " to ", describe(next), "; a step must keep the number of tensors, their shapes and their dtypes");
      state = clone(next);  // a step may return the same memory at every call
    }
    if (between && j + 1 < length) {
      const State stacked = between(j, stack(states));
      for (int64_t run = 0; run < count; ++run) states[static_cast<size_t>(run)] = row(stacked, run);
    }
  }
  return stack(states);
}

}  // namespace tw::layer_parallel
