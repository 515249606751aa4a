// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/named_shard.hpp>
#include <vector>

#include "progress.hpp"

namespace tw::train {

/// The part of a run's progress that judges the run, without its epoch and step. A search uses it to move a run between workers.
NamedShard as_shard(const Progress& progress);
/// Restores what as_shard() saved. @throws ContractError if it is not among `shards`
void take_shard(Progress& progress, const std::vector<NamedShard>& shards);

}  // namespace tw::train
