// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace tw::models {

/// LeNet with 20 and 50 feature maps and 500 hidden units: two convolutions (5x5), each with ReLU and 2x2 max-pooling, then two linear layers.
/// 431,080 parameters for 10 classes. Ref: LeCun et al. 1998, with the sizes of Caffe's MNIST example.
class LeNetImpl : public torch::nn::Module {
 public:
  explicit LeNetImpl(int64_t classes = 10);
  /// @param x [n, 1, 28, 28]; n may be 0. @return logits [n, classes].
  torch::Tensor forward(torch::Tensor x);

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Linear hidden_{nullptr};
  torch::nn::Linear output_{nullptr};
};
TORCH_MODULE(LeNet);

}  // namespace tw::models
