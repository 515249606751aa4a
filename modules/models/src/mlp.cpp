// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/models/mlp.hpp>

namespace tw::models {

MlpImpl::MlpImpl(const std::vector<int64_t>& widths) {
  TW_EXPECTS(widths.size() >= 2, "Mlp needs at least 2 widths, for input and output, got ", widths.size(), " widths");
  inputs_ = widths.front();
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.push_back(register_module(concat("layer", i), torch::nn::Linear(widths[i], widths[i + 1])));
  }
}

torch::Tensor MlpImpl::forward(torch::Tensor x) {
  x = x.reshape({x.size(0), inputs_});
  for (size_t i = 0; i + 1 < layers_.size(); ++i) x = layers_[i](x).relu();
  return layers_.back()(x);
}

}  // namespace tw::models
