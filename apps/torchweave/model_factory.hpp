// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/util/ArrayRef.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>

#include "train_config.hpp"

namespace tw::tool {

/// A module, and how it is called.
struct Callable {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// For LibTorch's holders, such as models::LeNet.
template <class Holder>
Callable callable(Holder holder) {
  return {holder.ptr(), [holder](const at::Tensor& inputs) mutable { return holder->forward(inputs); }};
}

/// Model "lenet", "mlp", "resnet" or "convnet". @param sample the shape of one input. @param outputs numbers for each
/// @throws Error for images that lenet does not take
Callable make_model(const ModelOptions& options, at::IntArrayRef sample, int64_t outputs);

}  // namespace tw::tool
