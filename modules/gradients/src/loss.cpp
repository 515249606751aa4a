// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tw/gradients/loss.hpp>

namespace tw {

double cross_entropy_weight(const at::Tensor& targets, const at::Tensor& class_weights, std::optional<int64_t> ignore_index) {
  if (targets.is_floating_point()) {
    const int64_t distributions = targets.numel() / targets.size(1);
    return static_cast<double>(distributions);
  }
  if (!ignore_index && !class_weights.defined()) return static_cast<double>(targets.numel());
  if (!class_weights.defined()) return static_cast<double>(targets.ne(*ignore_index).sum().item<int64_t>());
  at::Tensor valid = targets.flatten();
  if (ignore_index) valid = valid.masked_select(valid.ne(*ignore_index));
  return class_weights.to(valid.device()).index_select(0, valid.to(at::kLong)).sum(at::kDouble).item<double>();
}

// nan_to_num(), because 0 times an output that is not finite is NaN.
at::Tensor zero_loss(const std::vector<at::Tensor>& outputs) {
  const auto first = std::ranges::find_if(outputs, [](const at::Tensor& each) { return each.defined(); });
  at::Tensor zero = at::zeros({}, at::device(first == outputs.end() ? at::kCPU : first->device()));
  for (const at::Tensor& each : outputs) {
    if (each.defined() && each.requires_grad()) zero = zero + at::nan_to_num(each.flatten().slice(0, 0, 1), 0, 0, 0).sum() * 0;
  }
  return zero;
}

}  // namespace tw
