// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/named_shard.hpp>
#include <vector>

#include "progress.hpp"

namespace tw::train {

/// Of a run's progress what judges it, not how far it has come: for a search, which takes a run from one worker to another.
NamedShard as_shard(const Progress& progress);
/// Takes that over. @throws ContractError where it is not among `shards`
void take_shard(Progress& progress, const std::vector<NamedShard>& shards);

}  // namespace tw::train
