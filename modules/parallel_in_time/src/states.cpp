// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_in_time/states.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw::layer_parallel {

bool alike(const State& a, const State& b, size_t skipped) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || a[i].scalar_type() != b[i].scalar_type() || a[i].dim() != b[i].dim()) return false;
    if (!a[i].sizes().slice(skipped).equals(b[i].sizes().slice(skipped))) return false;
  }
  return true;
}

std::string describe(const State& state) {
  if (state.empty()) return "nothing";
  return joined(state, ", ", [](const at::Tensor& tensor) {
    return tensor.defined() ? dtype_name(tensor.scalar_type()) + ' ' + shape_text(tensor.sizes().vec()) : "an undefined tensor";
  });
}

State stack(const std::vector<State>& states) {
  State result;
  for (size_t component = 0; component < states.front().size(); ++component) {
    std::vector<at::Tensor> tensors;
    for (const State& state : states) tensors.push_back(state[component]);
    result.push_back(tensors.size() == 1 ? tensors.front().unsqueeze(0) : at::stack(tensors));
  }
  return result;
}

State concatenate(const std::vector<State>& stacks) {
  if (stacks.size() == 1) return stacks.front();
  State result;
  for (size_t component = 0; component < stacks.front().size(); ++component) {
    std::vector<at::Tensor> tensors;
    for (const State& states : stacks) tensors.push_back(states[component]);
    result.push_back(at::cat(tensors));
  }
  return result;
}

State zeros_like_rows(const State& example, int64_t n) {
  return each(example, [&](const at::Tensor& t) {
    auto shape = t.sizes().vec();
    shape[0] = n;
    return at::zeros(shape, t.options());
  });
}

State Stored::at(int64_t point, int64_t count, int64_t step) const {
  return rows(states, (point - first) / spacing, count, std::max<int64_t>(step / spacing, 1));
}

}  // namespace tw::layer_parallel
