// SPDX-License-Identifier: Apache-2.0
// The contents of a server's checkpoint: slices of the values, of each slot of the rules, and counts of updates.
#pragma once
#include <string>
#include <tw/server_shards/shard.hpp>
#include <tw/server_shards/shard_layout.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::parameter_server {

/// The consecutive elements of a tensor that one server holds; at least one.
struct ServerSlice {
  Extent extent;
  const std::vector<int64_t>& shape;  ///< of the tensor
  c10::ScalarType dtype;
  const std::vector<Rule>& rules;
};

/// Copies into new memory.
std::vector<NamedShard> named_shards_of(const Shard::Snapshot& snapshot, const ServerSlice& slice, const std::string& name);
/// The inverse of named_shards_of(). @throws ContractError unless `given` has the form of its result
Shard::Snapshot snapshot_of(const std::vector<NamedShard>& given, const ServerSlice& slice);

}  // namespace tw::parameter_server
