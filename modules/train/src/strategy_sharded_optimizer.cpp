// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/optimizer.h>

#include <string>
#include <tw/gradients/places_in_model.hpp>
#include <tw/gradients/sharded_optimizer.hpp>

#include "step_votes.hpp"
#include "strategies.hpp"

namespace tw::train {
namespace {

const std::string master_prefix = "master/";  // of ShardedOptimizer::master_shards()

ReducerOptions sharded_reduction(const StrategySetup& setup) {
  ReducerOptions options = reducer_options(setup);
  options.sharding = Sharding::slices;
  options.release = setup.shard.what == Sharded::gradients;
  return options;
}

/// Gradients are summed in every step, and each rank updates its share of the parameters: of those that the ranks along `data` and `shard` have in
/// common.
class ShardedUpdates : public Strategy {
 public:
  explicit ShardedUpdates(const StrategySetup& setup)
      : ranks_(setup.ranks),
        model_(setup.model),
        places_(*setup.model.trained),
        sums_(whole_parameters({.data = &setup.ranks.samples, .model = setup.ranks.parts}, *setup.model.trained, sharded_reduction(setup))),
        votes_(*sums_, setup.ranks.parts),
        optimizer_(parallel().reducer(), parallel().parameters(), optimizer_like(setup.optimizer, parallel().parameters()),
                   {.one_copy_per_node = setup.shard.one_copy_per_node}),
        state_(optimizer_.local(), optimized()),
        sharers_(setup.shard.one_copy_per_node ? setup.ranks.samples.size() : 1) {}

  const Communicator* summing_ranks() const override { return &ranks_.samples; }
  void zero_grad() override { optimizer_.zero_grad(); }
  void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) override {
    if (pass_and_sum(*sums_, share, [&] { pass(share.weight); })) votes_.collect();
  }
  void raise(Signal word) override { votes_.raise(word); }
  double clip_gradients(double max_norm, double loss_scale) override { return optimizer_.clip_gradient_norm(max_norm, loss_scale); }
  Outcome update(double loss_scale) override {
    const Outcome result = votes_.outcome(loss_scale);
    if (result.skipped) {
      optimizer_.skip();
    } else {
      optimizer_.step(loss_scale);
    }
    return result;
  }
  torch::optim::Optimizer& optimizer() override { return optimizer_.local(); }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = sums_->parameters();
    append(shards, state_.shards());
    append(shards, master_shards());
    return shards;
  }
  std::vector<NamedShard> exported_shards() const override { return model_.trained->exported_shards(); }
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { state_.apply(shards); }
  void account(KnownMemory& known) const override {
    for (const NamedTensor& each : model_.parameters) known.add(MemoryUse::parameters, each.tensor, sharers_);
    sums_->account(known);
    account_optimizer(known, optimizer_.master_shards());
    account_optimizer(known, state_.shards());
  }
  std::vector<int64_t> arrival_order() const override { return parallel().reducer().arrival_order(); }
  Seconds exposed_time() const override { return sums_->exposed_time() + optimizer_.exposed_time(); }
  int64_t payload_bytes() const override { return sums_->payload_bytes() + optimizer_.payload_bytes(); }

 private:
  DataParallel& parallel() const { return *sums_->parallel(); }

  // The optimizer knows this rank's parameters; checkpoints those of the whole model.
  std::vector<OptimizedTensor> optimized() const {
    std::vector<OptimizedTensor> all = optimizer_.optimized();
    for (OptimizedTensor& each : all) {
      for (NamedShard& slice : each.slices) slice = in_whole(std::move(slice), "");
    }
    return all;
  }
  std::vector<NamedShard> master_shards() const {
    std::vector<NamedShard> all = optimizer_.master_shards();
    for (NamedShard& each : all) each = in_whole(std::move(each), master_prefix);
    return all;
  }
  NamedShard in_whole(NamedShard slice, const std::string& prefix) const {
    slice.name.erase(0, prefix.size());
    slice = places_.in_whole(std::move(slice));
    slice.name.insert(0, prefix);
    slice.drop_other_names();
    return slice;
  }

  const Ranks& ranks_;
  const Model& model_;
  PlacesInModel places_;
  std::unique_ptr<GradientSums> sums_;
  StepVotes votes_;
  ShardedOptimizer optimizer_;
  OptimizerState state_;
  int sharers_;  // ranks that share a copy of the parameters
};

}  // namespace

std::unique_ptr<Strategy> make_sharded_optimizer(const StrategySetup& setup) { return std::make_unique<ShardedUpdates>(setup); }

StrategyMemory sharded_optimizer_memory(const ShardOptions& options, int ranks, const ModelMemory& model) {
  const bool releases = options.what == Sharded::gradients;
  const BucketBytes buckets = bucket_bytes(model, {}, ranks);
  StrategyMemory memory = shard_memory(ranks, model);
  memory.kept[MemoryUse::parameters] = buckets.sum / (options.one_copy_per_node ? ranks : 1) + model.frozen_bytes;
  memory.kept[MemoryUse::gradients] = buckets.sum / (releases ? ranks : 1);
  if (!releases) return memory;
  memory.kept[MemoryUse::buffers] += buckets.largest;
  memory.backward = buckets.in_flight();
  return memory;
}

}  // namespace tw::train
