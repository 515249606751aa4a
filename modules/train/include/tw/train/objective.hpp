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

/// Returns the denominator of the mean over a batch, from the batch's targets. It must be finite, at least 0, and the same on all ranks that hold one
/// model. An empty function stands for the number of samples.
using Weight = std::function<double(const at::Tensor& targets)>;

/// A metric that is a mean.
struct Metric {
  std::string name;
  bool larger_is_better = false;
  /// Returns the sum over a batch, in float64. Ranks exchange sums and weights, so the mean is exact on any number of ranks.
  std::function<double(const at::Tensor& outputs, const at::Tensor& targets)> sum;
  Weight weight = {};  ///< weight of a batch; over several batches, the mean is (sum of all sums) / (sum of all weights)
};

/// The loss that training minimises, and the metrics that evaluation reports.
struct Objective {
  /// Returns one number, the mean over a batch. Each pass on each rank counts by its `weight`, so that all of them together have the mean that one
  /// process would compute. A pass of weight 0 is left out. Replicas that meet rarely (ReplicaOptions) compare weights only within their own samples;
  /// when they meet, each replica counts by its number of samples.
  LossFunction loss;
  /// Metrics in addition to the loss, which is always reported as "loss".
  std::vector<Metric> metrics = {};
  /// Weight of the loss. If it is set, the trainer must know the weight of an update before the update's first pass. It therefore loads all batches
  /// of the update first, and calls on_sample() for each. This costs two small messages per update; if the targets are on a device, the host waits
  /// for the device.
  Weight weight = {};
};

/// The objective of a Loss, which determines `weight`: for example `torch::nn::CrossEntropyLoss()` with `ignore_index` or class weights. @throws
/// ContractError for a loss with the reduction 'sum', or with a factor from Loss::scaled_by()
Objective objective_of(const Loss& loss, std::vector<Metric> metrics = {});

/// Cross-entropy of logits [n, classes] against int64 [n], or [n, classes, ...] against [n, ...]; metric "accuracy", 0 to 1. Loss and metric throw
/// ContractError for other shapes. @param ignore_index class of targets that do not count; none: all targets count, and must be valid classes
Objective classification(std::optional<int64_t> ignore_index = std::nullopt);

/// Mean squared error (a sample's error is the mean over its elements); metric "mae", the mean absolute error. Loss and metric throw ContractError if
/// outputs and targets differ in shape, even if they could be broadcast.
Objective regression();

}  // namespace tw::train
