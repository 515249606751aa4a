// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <tw/base/contract.hpp>
#include <tw/layer_training/nested_iteration.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/state/optimizer_state.hpp>

#include "layer_transfer.hpp"

namespace tw::layer_training {

using layer_parallel::LayerParallel;

namespace {

/// Fills `shards` of `fine` from the tensors of the same names in `coarse`, on any rank.
void refine_shards(const LayerParallel& fine, const std::vector<NamedShard>& coarse, const std::vector<NamedShard>& shards, Refinement refinement) {
  std::vector<RowPart> mine;
  std::vector<at::Tensor> tensors;
  for (const NamedShard& shard : coarse) {
    mine.push_back(part_of(shard));
    tensors.push_back(shard.tensor);
  }
  const PartsByRank has = gather_parts(fine.comm(), mine);

  std::vector<RowPart> parts;
  std::vector<RowPart> wants;
  std::vector<at::Tensor> near;
  for (const NamedShard& shard : shards) {
    const RowPart* found = find_part(has, shard.name);
    if (found == nullptr) continue;
    parts.push_back(part_of(shard));
    layers_for_one(parts.back(), *found, is_of_layers(fine, shard.name));
    wants.push_back(coarse_rows(parts.back(), *found, refinement));
    near.push_back(shard.tensor);
  }
  TW_EXPECTS(wants.size() == shards.size(), "the smaller network has only ", wants.size(), " of the ", shards.size(),
             " tensors of this rank: both networks must have the same blocks");

  const RowExchange exchange(fine.comm().rank(), has, gather_parts(fine.comm(), wants));
  const std::vector<at::Tensor> rows = exchange(fine.comm(), tensors, near);
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].tensor.copy_(refined(rows[i], wants[i], parts[i], refinement).view_as(shards[i].tensor));
  }
  fine.comm().barrier();  // no rank continues unless all can
}

}  // namespace

void refine(const LayerParallel& coarse, LayerParallel& fine, Refinement refinement) {
  revoke_on_exception(fine.comm(), [&] { refine_shards(fine, coarse.shards(), fine.shards(), refinement); });
  coarse.comm().barrier();
}

void refine(const LayerParallel& coarse, torch::optim::Optimizer& coarse_optimizer, LayerParallel& fine, torch::optim::Optimizer& fine_optimizer,
            Refinement refinement) {
  refine(coarse, fine, refinement);
  const std::vector<NamedShard> coarse_shards = OptimizerState(coarse_optimizer, coarse.optimized_tensors()).shards();
  std::vector<RowPart> mine;
  for (const NamedShard& shard : coarse_shards) mine.push_back(part_of(shard));
  std::set<std::string> names;
  for (const auto& of_rank : gather_parts(coarse.comm(), mine)) {
    for (const RowPart& part : of_rank) names.insert(part.name);
  }
  OptimizerState state(fine_optimizer, fine.optimized_tensors());
  state.prepare({names.begin(), names.end()});
  const std::vector<NamedShard> fine_shards = state.shards();
  revoke_on_exception(fine.comm(), [&] { refine_shards(fine, coarse_shards, fine_shards, refinement); });
  state.apply(fine_shards);
}

}  // namespace tw::layer_training
