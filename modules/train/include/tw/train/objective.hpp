// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tw/gradients/loss.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <vector>

namespace tw::train {

using tw::LossFunction;

/// What the mean over a batch is divided by, from its targets; finite and at least 0, and the same on all ranks that hold one model. Empty: the
/// number of samples.
using Weight = std::function<double(const at::Tensor& targets)>;

/// A metric that is a mean.
struct Metric {
  std::string name;
  bool larger_is_better = false;
  /// Returns the sum over a batch, in float64. Ranks exchange sums and weights, so the mean is exact on any number of ranks.
  std::function<double(const at::Tensor& outputs, const at::Tensor& targets)> sum;
  Weight weight = {};
};

/// The loss that training minimises, and the metrics that evaluation reports.
struct Objective {
  /// One number, a mean. The mean over passes and ranks is that of one process: each part is weighed by `weight`. A part of weight 0 is left out.
  /// Replicas that meet seldom weigh the parts of their own samples; where they meet, they count by samples.
  LossFunction loss;
  /// Metrics in addition to the loss, which is always reported as "loss".
  std::vector<Metric> metrics = {};
  /// Of the loss. The update's weight is known before its first pass: all its batches are read by then, and on_sample() was called for each. It costs
  /// two small messages an update, and a device is waited for.
  Weight weight = {};
};

/// The objective of a loss that states its weight, such as `torch::nn::CrossEntropyLoss()` with `ignore_index` or class weights. @throws
/// ContractError for a sum, or a loss that is scaled_by()
Objective objective_of(const Loss& loss, std::vector<Metric> metrics = {});

/// Cross-entropy of logits [n, classes] against int64 [n], or [n, classes, ...] against [n, ...]; metric "accuracy", 0 to 1. Loss and metric throw
/// ContractError for other shapes. @param ignore_index class of targets that do not count; none: all count, and must be classes
Objective classification(std::optional<int64_t> ignore_index = std::nullopt);

/// Mean squared error (a sample's error is the mean over its elements); metric "mae", the mean absolute error. Both throw ContractError if outputs
/// and targets differ in shape, even if they could be broadcast.
Objective regression();

}  // namespace tw::train
