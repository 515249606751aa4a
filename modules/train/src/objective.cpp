// SPDX-License-Identifier: Apache-2.0
#include <tw/train/objective.hpp>

#include <torch/nn/functional/loss.h>

namespace tw::train {

Objective classification() {
  const auto correct = [](const at::Tensor& outputs, const at::Tensor& targets) { return outputs.argmax(1).eq(targets).sum().item<double>(); };
  return {.loss = [](const at::Tensor& outputs, const at::Tensor& targets) { return torch::cross_entropy_loss(outputs, targets); },
          .metrics = {{.name = "accuracy", .larger_is_better = true, .sum = correct}}};
}

Objective regression() {
  const auto absolute = [](const at::Tensor& outputs, const at::Tensor& targets) {
    const auto values = std::max<int64_t>(1, outputs.numel() / std::max<int64_t>(1, outputs.size(0)));
    return (outputs - targets).abs().sum(at::kDouble).item<double>() / static_cast<double>(values);
  };
  return {.loss = [](const at::Tensor& outputs, const at::Tensor& targets) { return torch::mse_loss(outputs, targets); },
          .metrics = {{.name = "mae", .sum = absolute}}};
}

}  // namespace tw::train
