// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <vector>

namespace tw::train {

using tw::LossFunction;

/// A metric that is a mean over samples.
struct Metric {
  std::string name;
  bool larger_is_better = false;
  /// Returns the sum over the samples of a batch, in float64. Ranks exchange sums and counts, so the mean is exact on any number of ranks.
  std::function<double(const at::Tensor& outputs, const at::Tensor& targets)> sum;
};

/// The loss that training minimises, and the metrics that evaluation reports.
struct Objective {
  /// One number, the mean over the samples of a batch: ranks and passes are weighed by their samples. Means over something else, such as over valid
  /// targets (`ignore_index`) or by class weights, are for ParallelModel, see tw::Loss.
  LossFunction loss;
  /// Metrics in addition to the loss, which is always reported as "loss".
  std::vector<Metric> metrics;
};

/// Cross-entropy of logits [n, classes] against int64 [n], or [n, classes, ...] against [n, ...], in which all targets count; metric "accuracy", 0 to
/// 1. Loss and metric throw ContractError for other shapes.
Objective classification();

/// Mean squared error (a sample's error is the mean over its elements); metric "mae", the mean absolute error. Both throw ContractError if outputs
/// and targets differ in shape, even if they could be broadcast.
Objective regression();

}  // namespace tw::train
