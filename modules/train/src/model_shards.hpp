// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/named_shard.hpp>
#include <tw/train/model.hpp>
#include <vector>

namespace tw::train {

/// The model's buffers and their places in the whole model; shares memory.
std::vector<NamedShard> buffer_shards(const Model& model);

/// `shards`, to which the further names of tied tensors are added.
std::vector<NamedShard> with_aliases(std::vector<NamedShard> shards, const Model& model);

}  // namespace tw::train
