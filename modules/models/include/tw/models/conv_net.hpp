// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <vector>

namespace tw::models {

enum class Activation { relu, sigmoid, tanh };

struct ConvNetOptions {
  int64_t layers = 2;  ///< number of convolutions, at least 1
  int64_t channels = 10;
  Activation activation = Activation::relu;
  int64_t height = 28;
  int64_t width = 28;
  int64_t classes = 10;
};

/// Convolutions (3x3, padded to keep the image's size), each followed by an activation, then one linear layer. This is the net in the tutorial of
/// Propulate (a hyperparameter optimizer), which searches over its depth and activation. With c channels, the number of parameters is
///
///     10 * c + (layers - 1) * (9 * c * c + c) + (c * height * width + 1) * classes
class ConvNetImpl : public torch::nn::Module {
 public:
  explicit ConvNetImpl(const ConvNetOptions& options = {});
  /// @param x [n, 1, height, width]; n may be 0. @return logits [n, classes].
  torch::Tensor forward(torch::Tensor x);

 private:
  ConvNetOptions options_;
  std::vector<torch::nn::Conv2d> convolutions_;
  torch::nn::Linear output_{nullptr};
};
TORCH_MODULE(ConvNet);

}  // namespace tw::models
