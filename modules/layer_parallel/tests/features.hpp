// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/torch.h>

#include <tw/layer_parallel/layer_parallel.hpp>

namespace tw::layer_parallel::features {

/// Enough iterations for the result of one process.
inline LayerParallelOptions exact(int iterations = 12) {
  return {.coarsening = 2, .min_coarse = 1, .forward = {.iterations = iterations}, .backward = {.iterations = iterations}};
}

struct WithDropoutImpl : torch::nn::Module {
  WithDropoutImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))), dropout(register_module("dropout", torch::nn::Dropout(0.5))) {}
  torch::Tensor forward(const torch::Tensor& u) { return dropout(torch::tanh(linear(u))); }
  torch::nn::Linear linear;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(WithDropout);

}  // namespace tw::layer_parallel::features
