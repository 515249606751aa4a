// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/optimizer.h>

#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/data_parallel/unit_memory.hpp>
#include <tw/gradients/sharded_optimizer.hpp>

#include "strategies.hpp"

namespace tw::train {
namespace {

/// Each rank keeps its share of parameters, gradients and state.
class FullyShardedReplicas : public Strategy {
 public:
  FullyShardedReplicas(const StrategySetup& setup, const FullyShardedOptions& options)
      : comm_(setup.ranks.data),
        model_(setup.model),
        sharded_(setup.ranks.data, setup.model.parameters, options),
        optimizer_(optimizer_like(setup.optimizer, sharded_.parallel().parameters())(sharded_.named_slices())),
        state_(*optimizer_, sharded_.optimized()) {
    for (const NamedTensor& each : model_.parameters)
      each.tensor.mutable_grad() = at::Tensor();  // left by an earlier run; nothing else would drop
                                                  // them
    synchronize(setup.ranks.data, setup.model.buffers);
  }

  bool ranks_pass_in_step() const override { return true; }
  void zero_grad() override { optimizer_->zero_grad(); }
  // The sum over ranks and passes is the mean over the update's samples. Every pass is reduced, since there is no buffer for unreduced gradients.
  void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) override {
    pass(static_cast<double>(share.here) / static_cast<double>(share.samples));
    const DataParallel& parallel = sharded_.parallel();
    outcome_.non_finite |= parallel.notices(static_cast<int>(Signal::non_finite)) > 0;
    outcome_.overflow |= !sharded_.gradients_finite();
    outcome_.stop |= parallel.notices(static_cast<int>(Signal::stop)) > 0;
  }
  void raise(Signal word) override { sharded_.parallel().vote(static_cast<int>(word)); }
  double clip_gradients(double max_norm, double loss_scale) override { return sharded_.clip_gradient_norm(max_norm * loss_scale) / loss_scale; }
  Outcome update(double loss_scale) override {
    const Outcome heard = std::exchange(outcome_, {});
    const Outcome result = outcome_of(heard.non_finite, !heard.overflow, heard.stop, loss_scale);
    if (result.left_out) return result;
    divide_gradients(sharded_.named_slices(), loss_scale);
    optimizer_->step();
    return result;
  }
  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = sharded_.shards();
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
    for (const NamedTensor& each : model_.parameters) {
      const at::Tensor whole = each.tensor.clone();  // collective: all ranks gather
      if (comm_.rank() == 0) all.push_back({each.name, whole});
    }
    if (comm_.rank() == 0) all.insert(all.end(), model_.buffers.begin(), model_.buffers.end());
    return all;
  }
  Seconds exposed_time() const override { return sharded_.exposed_time(); }
  int64_t payload_bytes() const override { return sharded_.payload_bytes(); }

 private:
  const Communicator& comm_;
  const Model& model_;
  FullySharded sharded_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  OptimizerState state_;
  Outcome outcome_;  // of this update's passes, regardless of the loss scale
};

}  // namespace

std::unique_ptr<Strategy> make_fully_sharded(const StrategySetup& setup) {
  return std::make_unique<FullyShardedReplicas>(setup, FullyShardedOptions{.reduction = Reduction::sum,
                                                                           .unit_bytes = setup.options.unit_bytes,
                                                                           .prefetch_units = setup.options.prefetch_units,
                                                                           .resident_bytes = setup.options.resident_bytes,
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
