// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/propagator.hpp>

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>

#include <tw/base/contract.hpp>

#include "states.hpp"

namespace tw::layer_parallel {

at::Tensor Propagator::norms(const State& states) const {
  at::Tensor squares;
  for (const at::Tensor& tensor : states) {
    const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
    const at::Tensor square = at::linalg_vector_norm(real.flatten(1), 2, at::IntArrayRef{1}, false, at::kDouble).square();
    squares = squares.defined() ? squares.add(square) : square;
  }
  return squares.sqrt();
}

State StepwisePropagator::march(const March& march, const State& from, const Between& between) {
  const auto& [first, count, spacing, length] = march.runs;
  std::vector<State> states;
  for (int64_t run = 0; run < count; ++run) states.push_back(row(from, run));
  for (int64_t j = 0; j < length; ++j) {
    for (int64_t run = 0; run < count; ++run) {
      State& state = states[static_cast<size_t>(run)];
      const State next = step_(march, march.runs.begin(run) + j, state);
      TW_EXPECTS(alike(next, state), "step ", march.runs.begin(run) + j, " of level ", march.level, " leads from ", describe(state), " to ",
                 describe(next), "; steps keep the tensors of a state, their shapes and dtypes");
      state = clone(next);  // a step may give the same memory at every call
    }
    if (between && j + 1 < length) {
      const State stacked = between(j, stack(states));
      for (int64_t run = 0; run < count; ++run) states[static_cast<size_t>(run)] = row(stacked, run);
    }
  }
  return stack(states);
}

}  // namespace tw::layer_parallel
