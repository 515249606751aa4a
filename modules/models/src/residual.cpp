// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <tw/models/residual.hpp>

namespace tw::models {
namespace {

torch::nn::Conv2d conv3x3(int64_t in, int64_t out, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1));
}

}  // namespace

torch::nn::Sequential residual_opening(int64_t channels) { return torch::nn::Sequential(conv3x3(1, channels, 2), torch::nn::ReLU()); }

ResidualLayerImpl::ResidualLayerImpl(int64_t channels) : conv_(register_module("conv", conv3x3(channels, channels, 1))) {}

torch::Tensor ResidualLayerImpl::forward(const torch::Tensor& u) { return torch::relu(conv_(u)); }

torch::nn::Sequential residual_closing(int64_t channels, int64_t pixels, int64_t classes) {
  return torch::nn::Sequential(torch::nn::AvgPool2d(2), torch::nn::Flatten(), torch::nn::Linear(channels * pixels, classes));
}

}  // namespace tw::models
