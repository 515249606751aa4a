// SPDX-License-Identifier: Apache-2.0
#include <tw/train/objective.hpp>

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::train {
namespace {

// LibTorch would broadcast [n, 1] against [n] to [n, n], and treat targets of the outputs' shape as probabilities.

void expect_classes(const at::Tensor& outputs, const at::Tensor& targets) {
  const bool has_classes = outputs.dim() >= 2;
  std::vector<int64_t> expected = outputs.sizes().vec();
  if (has_classes) expected.erase(expected.begin() + 1);
  TW_EXPECTS(has_classes && targets.sizes() == expected,
             "classification expects outputs [n, classes] and a class for each sample, targets [n]; got outputs ", outputs.sizes(), " and targets ",
             targets.sizes(), ". Use a model with an output for each class, or reshape the targets, such as targets.squeeze(1)");
}

void expect_equal_shapes(const at::Tensor& outputs, const at::Tensor& targets) {
  TW_EXPECTS(outputs.sizes() == targets.sizes(), "regression expects outputs and targets of one shape; got outputs ", outputs.sizes(),
             " and targets ", targets.sizes(), ". Reshape one of them, such as targets.unsqueeze(1) for outputs [n, 1] and targets [n]");
}

}  // namespace

Objective classification() {
  const auto loss = [](const at::Tensor& outputs, const at::Tensor& targets) {
    expect_classes(outputs, targets);
    return torch::cross_entropy_loss(outputs, targets);
  };
  const auto correct = [](const at::Tensor& outputs, const at::Tensor& targets) {
    expect_classes(outputs, targets);
    const auto places = std::max<int64_t>(1, targets.numel() / std::max<int64_t>(1, targets.size(0)));
    return outputs.argmax(1).eq(targets).sum().item<double>() / static_cast<double>(places);
  };
  return {.loss = loss, .metrics = {{.name = "accuracy", .larger_is_better = true, .sum = correct}}};
}

Objective regression() {
  const auto loss = [](const at::Tensor& outputs, const at::Tensor& targets) {
    expect_equal_shapes(outputs, targets);
    return torch::mse_loss(outputs, targets);
  };
  const auto absolute = [](const at::Tensor& outputs, const at::Tensor& targets) {
    expect_equal_shapes(outputs, targets);
    const auto values = std::max<int64_t>(1, outputs.numel() / std::max<int64_t>(1, outputs.size(0)));
    return (outputs - targets).abs().sum(at::kDouble).item<double>() / static_cast<double>(values);
  };
  return {.loss = loss, .metrics = {{.name = "mae", .sum = absolute}}};
}

}  // namespace tw::train
