// SPDX-License-Identifier: Apache-2.0
// The parts of a deep residual net for layer-parallel training: its layers are Euler steps u_{k+1} = u_k + dt * relu(conv(u_k)).
#pragma once
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

namespace tw::models {

/// A convolution (3x3, stride 2) and ReLU: [n, 1, height, width] -> [n, channels, (height + 1) / 2, (width + 1) / 2].
torch::nn::Sequential residual_opening(int64_t channels);

/// Returns du/dt = relu(conv3x3(u)).
class ResidualLayerImpl : public torch::nn::Module {
 public:
  explicit ResidualLayerImpl(int64_t channels);
  /// @param u [n, channels, height, width]. @return the same shape
  torch::Tensor forward(const torch::Tensor& u);

 private:
  torch::nn::Conv2d conv_{nullptr};
};
TORCH_MODULE(ResidualLayer);

/// Mean pooling (2x2) and a linear layer: [n, channels, height, width] -> logits [n, classes]. @param pixels (height / 2) * (width / 2).
torch::nn::Sequential residual_closing(int64_t channels, int64_t pixels, int64_t classes);

}  // namespace tw::models
