// SPDX-License-Identifier: Apache-2.0
// What tests of networks share.
#pragma once
#include <torch/torch.h>

#include <algorithm>

namespace tw::layer_parallel {

/// du/dt of a layer.
struct DenseImpl : torch::nn::Module {
  explicit DenseImpl(int64_t width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Dense);

inline double relative_difference(const torch::Tensor& ours, const torch::Tensor& theirs) {
  return (ours - theirs).norm().item<double>() / std::max(theirs.norm().item<double>(), 1e-300);
}

}  // namespace tw::layer_parallel
