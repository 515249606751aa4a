// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function_hook.h>

#include <functional>
#include <tw/data_parallel/idle_pass.hpp>
#include <tw/gradients/reduction.hpp>
#include <utility>
#include <vector>

namespace tw {

/// Marks a parameter's gradient accumulator as reduced. Autograd calls it before it adds to the gradient.
class ReducerHook final : public torch::autograd::FunctionPreHook {
 public:
  /// @param lives whether the reducer still exists
  ReducerHook(std::function<void()> before, std::function<bool()> lives, Reduction reduction)
      : before_(std::move(before)), lives_(std::move(lives)), reduction_(reduction) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    before_();
    if (!IdlePass::in_progress()) return gradients;
    torch::autograd::variable_list zeros;  // not multiplied by 0, because 0 times a derivative that is not finite is NaN
    for (const at::Tensor& each : gradients) zeros.push_back(each.defined() ? at::zeros_like(each) : each);
    return zeros;
  }
  bool lives() const { return lives_(); }
  Reduction reduction() const noexcept { return reduction_; }

 private:
  std::function<void()> before_;
  std::function<bool()> lives_;
  Reduction reduction_;
};

/// The reductions of `parameter`'s gradient during backward passes: one for each living DataParallel or FullySharded over it.
std::vector<Reduction> reductions_of(const at::Tensor& parameter);

}  // namespace tw
