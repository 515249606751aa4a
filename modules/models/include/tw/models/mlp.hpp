// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <vector>

namespace tw::models {

/// Linear layers with ReLU between them.
class MlpImpl : public torch::nn::Module {
 public:
  /// @param widths sizes of input, hidden layers and output; at least two.
  explicit MlpImpl(const std::vector<int64_t>& widths);
  /// @param x [n, ...] with widths.front() elements per sample; n may be 0. @return [n, widths.back()].
  torch::Tensor forward(torch::Tensor x);

 private:
  int64_t inputs_;
  std::vector<torch::nn::Linear> layers_;
};
TORCH_MODULE(Mlp);

}  // namespace tw::models
