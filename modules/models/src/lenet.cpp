// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/functional/pooling.h>

#include <tw/base/contract.hpp>
#include <tw/models/lenet.hpp>

namespace tw::models {
namespace {
constexpr int64_t features = int64_t{50} * 4 * 4;  // number of features of an image after the second pooling
}

LeNetImpl::LeNetImpl(int64_t classes) {
  conv1_ = register_module("conv1", torch::nn::Conv2d(1, 20, 5));
  conv2_ = register_module("conv2", torch::nn::Conv2d(20, 50, 5));
  hidden_ = register_module("hidden", torch::nn::Linear(features, 500));
  output_ = register_module("output", torch::nn::Linear(500, classes));
}

torch::Tensor LeNetImpl::forward(torch::Tensor x) {
  TW_EXPECTS(x.dim() == 4 && x.size(1) == 1 && x.size(2) == 28 && x.size(3) == 28, "LeNet expects inputs [n, 1, 28, 28], got ", x.sizes());
  x = torch::max_pool2d(conv1_(x).relu(), 2);            // [n, 20, 12, 12]
  x = torch::max_pool2d(conv2_(x).relu(), 2);            // [n, 50, 4, 4]
  x = hidden_(x.reshape({x.size(0), features})).relu();  // [n, 500]
  return output_(x);
}

}  // namespace tw::models
