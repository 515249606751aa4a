// SPDX-License-Identifier: Apache-2.0
// A forward and backward pass of one rank; gradient accumulation makes several per update.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/data/dataset.hpp>

namespace tw::train {

/// A pass of an update, with its batch.
struct Pass {
  int64_t index = 0;   ///< index in its update
  int64_t number = 0;  ///< number in the run
  uint64_t seed = 0;   ///< seed of the model's random numbers
  Batch batch = {};
  double weight = 0;  ///< the number by which the mean over the batch is divided
  bool last = false;  ///< last pass of its update
};

/// The seed for a model's random numbers (dropout) in a pass. Depends only on the run's seed and the pass, so a resumed run draws the same numbers.
/// @param number of the pass, among those of all ranks
uint64_t seed_of_pass(int64_t seed, int64_t number);

/// One or two samples for a rank that has none in a batch but must make a pass with the others. Two if available: batch norms refuse one.
Batch first_samples(const Dataset& dataset, c10::Device device);

}  // namespace tw::train
