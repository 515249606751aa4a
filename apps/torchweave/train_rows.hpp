// SPDX-License-Identifier: Apache-2.0
// The number of samples of an update and of a pass, and the first samples of a data set.
#pragma once
#include <cstdint>
#include <tw/data/dataset.hpp>

#include "train_config.hpp"

namespace tw::tool {

/// Samples of an update, over all ranks. @param ranks number of ranks with different samples, see sample_ranks()
int64_t global_batch_of(const TrainConfig& config, int ranks);

/// Samples of one model in a forward and backward pass. @param ranks the same
int64_t rows_of_a_pass(const TrainConfig& config, int ranks);

/// The first `count` samples; all if there are fewer.
Batch first_samples(const Dataset& dataset, int64_t count, c10::Device device = c10::Device(c10::kCPU));

}  // namespace tw::tool
