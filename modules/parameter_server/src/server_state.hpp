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
struct ServerRun {
  Extent extent;
  const std::vector<int64_t>& shape;  ///< of the tensor
  c10::ScalarType dtype;
  const std::vector<Rule>& rules;
};

/// Copies into new memory.
std::vector<NamedShard> pieces_of(const Shard::Snapshot& snapshot, const ServerRun& run, const std::string& name);
/// The inverse of pieces_of(). @throws ContractError unless `given` has the form of its result
Shard::Snapshot snapshot_of(const std::vector<NamedShard>& given, const ServerRun& run);

}  // namespace tw::parameter_server
