// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data_parallel/sync_batch_norm.hpp>
#include <tw/train/model.hpp>
#include <utility>
#include <vector>

#include "ranks.hpp"

namespace tw::train {

/// The SyncBatchNorms among the layers of `model` on this rank, with their names. Local; borrowed.
std::vector<std::pair<std::string, const SyncBatchNormImpl*>> batch_norms_of(const TrainableModel& model);

/// Sets `model.exchanges_in_passes` on all ranks if one has a SyncBatchNorm. Collective over `ranks.all`.
/// @throws ContractError on every rank, naming a SyncBatchNorm in stages or in layers in parallel, whose ranks may make different numbers of passes,
/// or with Reduction::sample_weighted: the trainer weights losses itself, and sums gradients
void agree_on_batch_norms(const Ranks& ranks, Model& model);

}  // namespace tw::train
