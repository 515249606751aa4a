// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/optimizer.h>

#include <tw/gradients/sharded_optimizer.hpp>

#include "synchronous_replicas.hpp"

namespace tw::train {
namespace {

/// Each rank updates its share of the parameters.
class Sharded : public SynchronousReplicas {
 public:
  Sharded(const StrategySetup& setup, const ReducerOptions& reducer, const ShardedOptimizerOptions& options)
      : SynchronousReplicas(setup, reducer),
        optimizer_(parallel().reducer(), parallel().parameters(), optimizer_like(setup.optimizer, parallel().parameters()), options),
        state_(optimizer_.local(), optimizer_.optimized()),
        sharers_(options.one_copy_per_node ? setup.ranks.data.size() : 1) {}

  void zero_grad() override { optimizer_.zero_grad(); }
  double clip_gradients(double max_norm, double loss_scale) override { return optimizer_.clip_gradient_norm(max_norm, loss_scale); }
  Outcome update(double loss_scale) override {
    const Outcome result = outcome(loss_scale);
    if (result.left_out) {
      optimizer_.skip();
    } else {
      optimizer_.step(loss_scale);
    }
    return result;
  }
  torch::optim::Optimizer& optimizer() override { return optimizer_.local(); }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = parameter_shards(model());
    append(shards, state_.shards());
    append(shards, optimizer_.master_shards());
    return shards;
  }
  void account(KnownMemory& known) const override {
    account_reduced(known, sharers_);
    account_optimizer(known, optimizer_.master_shards());
    account_optimizer(known, state_.shards());
  }
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { state_.apply(shards); }
  Seconds exposed_time() const override { return SynchronousReplicas::exposed_time() + optimizer_.exposed_time(); }
  int64_t payload_bytes() const override { return SynchronousReplicas::payload_bytes() + optimizer_.payload_bytes(); }

 private:
  ShardedOptimizer optimizer_;
  OptimizerState state_;
  int sharers_;  // ranks that share a copy of the parameters
};

}  // namespace

std::unique_ptr<Strategy> make_sharded(const StrategySetup& setup) {
  ReducerOptions options = reducer_options(setup);
  options.sharding = Sharding::slices;
  options.release = setup.options.release_gradients;
  return std::make_unique<Sharded>(setup, options, ShardedOptimizerOptions{.one_copy_per_node = setup.options.one_copy_per_node});
}

StrategyMemory sharded_memory(const StrategyOptions& options, int ranks, const ModelMemory& model) {
  const BucketBytes buckets = bucket_bytes(model, {}, ranks);
  StrategyMemory memory = shard_memory(ranks, model);
  memory.kept[MemoryUse::parameters] = buckets.sum / (options.one_copy_per_node ? ranks : 1) + model.frozen_bytes;
  memory.kept[MemoryUse::gradients] = buckets.sum / (options.release_gradients ? ranks : 1);
  if (!options.release_gradients) return memory;
  memory.kept[MemoryUse::buffers] += buckets.largest;
  memory.backward = buckets.in_flight();
  return memory;
}

}  // namespace tw::train
