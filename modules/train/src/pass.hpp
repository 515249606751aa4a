// SPDX-License-Identifier: Apache-2.0
// A forward and backward pass of one rank, of which an update has several where gradients are accumulated.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <tw/data/dataset.hpp>
#include <tw/train/model.hpp>

namespace tw::train {

/// What a model draws in a pass (dropout) depends on the run's seed and the pass alone: a resumed run draws what it would have drawn.
/// @param number of the pass, among those of all ranks
uint64_t seed_of_pass(int64_t seed, int64_t number);

/// A rank without samples still takes part in the reduction: with zeros, for every parameter. @param on_loss see TrainingPass
void pass_over_nothing(const Model& model, const std::function<void(const at::Tensor& outputs, at::Tensor& loss)>& on_loss);

/// Samples, two where there are as many, for a rank that has none of a batch and has to make a pass with the others: batch norms refuse one.
Batch first_samples(const Dataset& dataset, c10::Device device);

}  // namespace tw::train
