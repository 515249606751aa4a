// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <vector>

namespace tw::train {

using tw::LossFunction;

/// A figure that is a mean over samples.
struct Metric {
  std::string name;
  bool larger_is_better = false;
  /// The sum over the samples of a batch, in float64. Sums and counts travel between ranks, so that the mean is exact on any number of them.
  std::function<double(const at::Tensor& outputs, const at::Tensor& targets)> sum;
};

/// What training minimises, and what evaluation shows.
struct Objective {
  LossFunction loss;
  /// In addition to the loss itself, which is always there as "loss".
  std::vector<Metric> metrics;
};

/// Cross-entropy of logits [n, classes] against int64 [n]; metric "accuracy", 0 to 1. Loss and metric throw ContractError for other shapes.
Objective classification();

/// Mean squared error, a sample's being the mean over its elements; metric "mae", the mean absolute error. Outputs and targets of different shapes
/// are a ContractError, even where broadcasting would make them fit.
Objective regression();

}  // namespace tw::train
