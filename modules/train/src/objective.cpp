// SPDX-License-Identifier: Apache-2.0
#include <tw/train/objective.hpp>

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <limits>
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

Objective objective_of(const Loss& loss, std::vector<Metric> metrics) {
  TW_EXPECTS(!loss.is_sum(), "a loss with the reduction 'sum' has no mean: use 'mean'");
  TW_EXPECTS(loss.scale() == 1, "the trainer scales losses itself (PrecisionOptions): leave scaled_by(", loss.scale(), ") out");
  const auto mean = [loss](const at::Tensor& outputs, const at::Tensor& targets) { return loss.mean({outputs}, {targets}); };
  Weight weight;
  if (!loss.weighs_rows()) weight = [loss](const at::Tensor& targets) { return loss.weight({targets}, targets.size(0)); };
  return {.loss = mean, .metrics = std::move(metrics), .weight = std::move(weight)};
}

Objective classification(std::optional<int64_t> ignore_index) {
  constexpr int64_t no_class = std::numeric_limits<int64_t>::min();  // LibTorch would ignore -100
  const int64_t ignored = ignore_index.value_or(no_class);
  const auto loss = [ignored](const at::Tensor& outputs, const at::Tensor& targets) {
    expect_classes(outputs, targets);
    return torch::cross_entropy_loss(outputs, targets, {}, at::Reduction::Mean, ignored);
  };
  const auto correct = [ignored](const at::Tensor& outputs, const at::Tensor& targets) {
    expect_classes(outputs, targets);
    return outputs.argmax(1).eq(targets).logical_and_(targets.ne(ignored)).sum().item<double>();
  };
  const Weight counted = [ignored](const at::Tensor& targets) { return cross_entropy_weight(targets, {}, ignored); };
  const Metric accuracy{.name = "accuracy", .larger_is_better = true, .sum = correct, .weight = counted};
  // Without ignored targets, each sample has the same weight.
  return {.loss = loss, .metrics = {accuracy}, .weight = ignore_index ? counted : Weight()};
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
