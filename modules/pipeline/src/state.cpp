// SPDX-License-Identifier: Apache-2.0
// State of a pipeline's ranks: for checkpoints, for optimizers, and gathered into a whole model.
#include <algorithm>
#include <tw/comm/typed_objects.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "impl.hpp"
#include "sparse_parameters.hpp"

namespace tw::pipeline {
namespace {

/// All tensors of the rank's stages, each once.
std::vector<NamedShard> shards_of(const StageModel& model, const std::vector<Tie>& ties) {
  std::vector<NamedShard> shards;
  const auto add = [&](const std::string& name, const at::Tensor& tensor, ShardKind kind) {
    const auto known = std::ranges::find_if(shards, [&](const NamedShard& each) {  // other tensors may lie in the same storage
      return tensor.numel() > 0 && each.kind == kind && each.tensor.is_alias_of(tensor.detach()) && each.tensor.data_ptr() == tensor.data_ptr() &&
             each.tensor.sizes() == tensor.sizes();
    });
    if (known != shards.end()) {
      if (known->name != name && std::find(known->aliases.begin(), known->aliases.end(), name) == known->aliases.end()) {
        known->aliases.push_back(name);
      }
      return;
    }
    NamedShard shard = whole(name, tensor.detach(), kind);
    shard.on_reshard = OnReshard::shard;  // this rank has the whole tensor
    if (const auto tied = model.tied.find(name); tied != model.tied.end()) {
      const auto tie = std::find_if(ties.begin(), ties.end(), [&](const Tie& each) { return each.name == tied->second; });
      if (tie != ties.end()) {  // else a buffer, which keeps its name here
        shard.name = tie->name;
        for (const std::string& each : tie->names) {
          if (each != tie->name) shard.aliases.push_back(each);
        }
      }
    }
    shards.push_back(std::move(shard));
  };
  for (const auto& p : model.module->named_parameters()) add(p.key(), p.value(), ShardKind::parameter);
  for (const auto& b : model.module->named_buffers()) add(b.key(), b.value(), ShardKind::buffer);
  return shards;
}

}  // namespace

std::vector<NamedShard> Pipeline::shards() const {
  std::vector<NamedShard> shards = shards_of(impl_->model_, impl_->gradients_->ties());
  shards.push_back(whole("pipeline/calls", impl_->calls_, ShardKind::counter));
  return shards;
}

ModelTensors Pipeline::tensors() const {
  ModelTensors tensors = model_tensors(*this);
  tensors.sparse = sparse_parameters_of(impl_->model_);
  return tensors;
}

std::vector<OptimizedTensor> Pipeline::optimized_tensors() const {
  std::vector<OptimizedTensor> tensors;
  const std::vector<NamedShard> all = shards_of(impl_->model_, impl_->gradients_->ties());
  for (const NamedTensor& each : impl_->gradients_->parameters()) {
    const auto shard = std::find_if(all.begin(), all.end(), [&](const NamedShard& s) {
      return s.tensor.data_ptr() == each.tensor.data_ptr() && s.tensor.sizes() == each.tensor.sizes() && s.kind == ShardKind::parameter;
    });
    tensors.push_back({each.tensor, {*shard}});
    tensors.back().slices.front().drop_other_names();
  }
  return tensors;
}

std::vector<NamedTensor> Pipeline::whole_on_root() const {
  const Impl& me = *impl_;
  return revoke_on_exception(me.comm_, [&] {
    std::vector<std::string> names;
    std::vector<at::Tensor> mine;
    if (me.place_.replica == 0) {
      for (const auto& named : {me.model_.module->named_parameters(), me.model_.module->named_buffers()}) {
        for (const auto& each : named) {
          names.push_back(each.key());
          mine.push_back(each.value().detach());
        }
      }
    }
    const auto of_ranks = gather_objects(me.comm_, names, Rank(0));
    std::vector<NamedTensor> all;
    std::vector<Work> sends;
    if (me.comm_.rank() != 0) {
      if (!mine.empty()) send(me.comm_, {mine, std::vector<uint8_t>(mine.size(), 0)}, {Rank(0)}, sends);
    } else {
      for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
        if (of_ranks[rank].empty()) continue;
        std::vector<at::Tensor> values;
        if (rank > 0) {
          values = receive(me.comm_, {Rank(static_cast<int>(rank))}).values;
        } else {
          for (const at::Tensor& each : mine) values.push_back(each.clone());
        }
        TW_ASSERT(values.size() == of_ranks[rank].size());
        for (size_t i = 0; i < values.size(); ++i) {
          const std::string& name = of_ranks[rank][i];
          if (std::ranges::find(all, name, &NamedTensor::name) == all.end()) all.push_back({name, values[i]});  // else tied, or a constant buffer
        }
      }
    }
    wait_all(sends);
    return all;
  });
}

}  // namespace tw::pipeline
