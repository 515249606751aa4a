// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/models/conv_net.hpp>

namespace tw::models {

ConvNetImpl::ConvNetImpl(const ConvNetOptions& options) : options_(options) {
  TW_EXPECTS(options.layers >= 1 && options.channels >= 1, "a ConvNet needs at least 1 layer and 1 channel, got ", options.layers, " and ",
             options.channels);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const torch::nn::Conv2dOptions shape(layer == 0 ? 1 : options.channels, options.channels, 3);
    convolutions_.push_back(register_module(concat("conv", layer), torch::nn::Conv2d(torch::nn::Conv2dOptions(shape).padding(1))));
  }
  output_ = register_module("output", torch::nn::Linear(options.channels * options.height * options.width, options.classes));
}

torch::Tensor ConvNetImpl::forward(torch::Tensor x) {
  TW_EXPECTS(x.dim() == 4 && x.size(1) == 1 && x.size(2) == options_.height && x.size(3) == options_.width, "this ConvNet expects inputs [n, 1, ",
             options_.height, ", ", options_.width, "], got ", x.sizes());
  for (torch::nn::Conv2d& convolution : convolutions_) {
    x = convolution(x);  // [n, channels, height, width]
    switch (options_.activation) {
      case Activation::relu: x = x.relu(); break;
      case Activation::sigmoid: x = x.sigmoid(); break;
      case Activation::tanh: x = x.tanh(); break;
    }
  }
  return output_(x.reshape({x.size(0), options_.channels * options_.height * options_.width}));
}

}  // namespace tw::models
