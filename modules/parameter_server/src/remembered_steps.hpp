// SPDX-License-Identifier: Apache-2.0
// How many steps a worker has made, which says where it is between two exchanges; for checkpoints.
#pragma once
#include <cstdint>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::parameter_server {

/// In a tensor of its own.
NamedShard steps_shard(int64_t steps);

/// @throws ContractError where steps_shard() is not among them
int64_t steps_in(const std::vector<NamedShard>& shards);

}  // namespace tw::parameter_server
