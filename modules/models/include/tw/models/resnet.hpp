// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace tw::models {

/// A residual net for small images: a convolution, three stages of `blocks` blocks with 16, 32 and 64 feature maps, the mean over the image, and a
/// linear layer. The second and third stage halve the resolution; the shortcuts of their first blocks are projections (1x1 convolutions). Batch
/// normalization follows each convolution except projections. The net has 6 * blocks + 2 layers, not counting projections; 77,562 parameters with one
/// block per stage and 10 classes. Ref: He et al. 2016, section 4.2.
class ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(int64_t blocks = 1, int64_t classes = 10);
  /// @param x [n, 1, height, width], height and width at least 4. @return logits [n, classes].
  torch::Tensor forward(torch::Tensor x);

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::ModuleList blocks_{nullptr};
  torch::nn::Linear output_{nullptr};
};
TORCH_MODULE(ResNet);

}  // namespace tw::models
