// SPDX-License-Identifier: Apache-2.0
// How many samples a rank takes, and the first ones.
#pragma once
#include <cstdint>
#include <tw/data/dataset.hpp>

#include "train_config.hpp"

namespace tw::tool {

/// Of an update, over all ranks of the data axis.
int64_t global_batch_of(const TrainConfig& config, int ranks);

/// Of one model, in a forward and backward pass. @param ranks of the data axis
int64_t rows_of_a_pass(const TrainConfig& config, int ranks);

/// At most so many.
Batch first_samples(const Dataset& dataset, int64_t count, c10::Device device = c10::Device(c10::kCPU));

}  // namespace tw::tool
