// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>

#include <limits>
#include <optional>
#include <tw/comm/collectives.hpp>
#include <tw/comm/full_tensors.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/data_parallel/unit_memory.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/gradients/places_in_model.hpp>
#include <tw/gradients/sharded_optimizer.hpp>

#include "strategies.hpp"

namespace tw::train {
namespace {

/// Each rank keeps its share of parameters, gradients and state; of its part, if ranks hold the model together.
class FullyShardedReplicas : public Strategy {
 public:
  FullyShardedReplicas(const StrategySetup& setup, const FullyShardedOptions& options)
      : ranks_(setup.ranks),
        model_(setup.model),
        places_(*setup.model.trained),
        sharded_(setup.ranks.data, setup.model.parameters, options),
        optimizer_(optimizer_like(setup.optimizer, sharded_.parallel().parameters())(sharded_.named_slices())),
        state_(*optimizer_, optimized()) {
    if (ranks_.parts != nullptr) parts_ = {model_parts(*ranks_.parts, *model_.trained)};
    for (const NamedTensor& each : model_.parameters)
      each.tensor.mutable_grad() = at::Tensor();  // left by an earlier run; nothing else would drop
                                                  // them
    synchronize(setup.ranks.data, setup.model.buffers);
  }

  bool ranks_pass_in_step() const override { return true; }
  void zero_grad() override { optimizer_->zero_grad(); }
  // The sum over ranks and passes is the mean over the update's samples. Every backward pass is reduced, since there is no buffer for unreduced
  // gradients. Those of other passes add up whole until the last one has ended.
  void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) override {
    DataParallel& parallel = sharded_.parallel();
    {
      std::optional<DataParallel::NoSync> local;
      if (!share.one_backward) local.emplace(parallel.no_sync());
      pass(static_cast<double>(share.here) / static_cast<double>(share.samples));
    }
    if (!share.one_backward && !share.last) return;
    if (!share.one_backward) parallel.join_backward();
    outcome_.non_finite |= parallel.notices(static_cast<int>(Signal::non_finite)) > 0;
    outcome_.overflow |= !sharded_.gradients_finite();
    outcome_.stop |= parallel.notices(static_cast<int>(Signal::stop)) > 0;
  }
  void raise(Signal word) override { sharded_.parallel().vote(static_cast<int>(word)); }
  double clip_gradients(double max_norm, double loss_scale) override {
    if (ranks_.parts == nullptr) return sharded_.clip_gradient_norm(max_norm * loss_scale) / loss_scale;
    GradientShare share{.counted = {}, .sum_over = {&ranks_.data, ranks_.parts}};
    for (const auto& [name, slice] : sharded_.named_slices()) {
      if (slice.grad().defined()) (is_counted_elsewhere(parts_, name) ? share.others : share.counted).push_back(slice.grad());
    }
    return clip_gradient_norm(share, max_norm * loss_scale) / loss_scale;
  }
  Outcome update(double loss_scale) override {
    const Outcome heard = agreed(std::exchange(outcome_, {}));
    const Outcome result = outcome_of(heard.non_finite, !heard.overflow, heard.stop, loss_scale);
    if (result.left_out) return result;
    divide_gradients(sharded_.named_slices(), loss_scale);
    optimizer_->step();
    return result;
  }
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = parameters();
    append(shards, state_.shards());
    return shards;
  }
  void account(KnownMemory& known) const override {
    for (const NamedShard& shard : sharded_.shards()) known.add(MemoryUse::parameters, shard.tensor);
    for (const NamedTensor& slice : sharded_.named_slices()) known.add(MemoryUse::gradients, slice.tensor.grad());
    account_buckets(known, sharded_.parallel().reducer());
    account_optimizer(known, state_.shards());
    known.add(MemoryUse::buffers, sharded_.buffer_bytes());
  }
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override {
    state_.apply(shards);
    sharded_.slices_changed();
  }
  std::optional<std::vector<NamedTensor>> whole_tensors() override {
    const at::NoGradGuard no_grad;
    std::vector<NamedTensor> all;
    if (ranks_.parts != nullptr) {
      std::vector<NamedShard> shards = parameters();
      for (NamedShard& shard : model_.trained->shards()) {
        if (shard.kind == ShardKind::buffer) shards.push_back(std::move(shard));
      }
      for_each_full_tensor(ranks_.all, shards, [&](const std::string& name, const at::Tensor& values) {
        if (ranks_.all.rank() == 0) all.push_back({name, values.clone()});
      });
      return all;
    }
    for (const NamedTensor& each : model_.parameters) {
      const at::Tensor whole = each.tensor.clone();  // collective: all ranks gather
      if (ranks_.data.rank() == 0) all.push_back({each.name, whole});
    }
    if (ranks_.data.rank() == 0) all.insert(all.end(), model_.buffers.begin(), model_.buffers.end());
    return all;
  }
  Seconds exposed_time() const override { return sharded_.exposed_time(); }
  int64_t payload_bytes() const override { return sharded_.payload_bytes(); }

 private:
  std::vector<NamedShard> parameters() const {
    std::vector<NamedShard> shards = sharded_.shards();
    for (NamedShard& shard : shards) shard = places_.in_whole(std::move(shard));
    return shards;
  }
  std::vector<OptimizedTensor> optimized() const {
    std::vector<OptimizedTensor> all = sharded_.optimized();
    for (OptimizedTensor& each : all) {
      for (NamedShard& slice : each.slices) {
        slice = places_.in_whole(std::move(slice));
        slice.aliases.clear();  // optimizer state is named after one name only
      }
    }
    return all;
  }
  /// What is so on any of the ranks that hold the model together.
  Outcome agreed(Outcome here) const {
    if (ranks_.parts == nullptr) return here;
    const at::Tensor flags = at::zeros({3}, at::kInt);
    auto* const values = flags.mutable_data_ptr<int32_t>();
    values[0] = here.non_finite ? 1 : 0;
    values[1] = here.overflow ? 1 : 0;
    values[2] = here.stop ? 1 : 0;
    allreduce(*ranks_.parts, flags, ReduceOp::max);
    return {.overflow = values[1] != 0, .non_finite = values[0] != 0, .stop = values[2] != 0};
  }

  const Ranks& ranks_;
  const Model& model_;
  PlacesInModel places_;  // before sharding
  ModelPartsList parts_;  // empty if each rank has the whole model
  FullySharded sharded_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  OptimizerState state_;
  Outcome outcome_;  // of this update's passes, regardless of the loss scale
};

}  // namespace

std::unique_ptr<Strategy> make_fully_sharded(const StrategySetup& setup) {
  // Stages, and layers in parallel, use parameters many times in an update.
  const int64_t resident = setup.model.is_in_parts() ? std::numeric_limits<int64_t>::max() : setup.options.resident_bytes;
  return std::make_unique<FullyShardedReplicas>(setup, FullyShardedOptions{.reduction = Reduction::sum,
                                                                           .unit_bytes = setup.options.unit_bytes,
                                                                           .prefetch_units = setup.options.prefetch_units,
                                                                           .resident_bytes = resident,
                                                                           .one_copy_per_node = setup.options.one_copy_per_node,
                                                                           .check_finite = true});
}

StrategyMemory fully_sharded_memory(const StrategyOptions& options, int ranks, const ModelMemory& model) {
  const BucketBytes units = bucket_bytes(model, {options.unit_bytes, options.unit_bytes}, ranks);
  StrategyMemory memory = shard_memory(ranks, model);
  memory.kept[MemoryUse::parameters] = (units.sum + model.frozen_bytes) / ranks;
  memory.kept[MemoryUse::gradients] = units.sum / ranks;
  memory.kept[MemoryUse::buffers] += units.largest;
  if (!options.one_copy_per_node) memory.kept[MemoryUse::buffers] += room_for_units(units.each, options.prefetch_units, options.resident_bytes);
  memory.backward = units.in_flight();
  memory.gathered = ranks * memory.kept[MemoryUse::parameters];
  return memory;
}

}  // namespace tw::train
