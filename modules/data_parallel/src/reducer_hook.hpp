// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>

#include <functional>
#include <tw/gradients/reduction.hpp>
#include <utility>
#include <vector>

namespace tw {

/// Who reduces a parameter's gradient, as its accumulator knows: autograd calls this before it adds to the gradient.
class ReducerHook final : public torch::autograd::FunctionPreHook {
 public:
  /// @param lives whether there still is who reduces
  ReducerHook(std::function<void()> before, std::function<bool()> lives, Reduction reduction)
      : before_(std::move(before)), lives_(std::move(lives)), reduction_(reduction) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    before_();
    return gradients;
  }
  bool lives() const { return lives_(); }
  Reduction reduction() const noexcept { return reduction_; }

 private:
  std::function<void()> before_;
  std::function<bool()> lives_;
  Reduction reduction_;
};

/// By which reductions the gradient of `parameter` is reduced during backward passes, one for each DataParallel or FullySharded that lives.
std::vector<Reduction> reductions_of(const at::Tensor& parameter);

}  // namespace tw
