// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <tw/gradients/clipping.hpp>
#include <tw/gradients/compression.hpp>

#include "synchronous_replicas.hpp"

namespace tw::train {
namespace {

std::shared_ptr<Compressor> make_compressor(const StrategyOptions& options) {
  switch (options.compression) {
    case CompressionKind::none: return nullptr;
    case CompressionKind::float16: return half_compression(HalfPrecision::float16);
    case CompressionKind::bfloat16: return half_compression(HalfPrecision::bfloat16);
    case CompressionKind::top_k: return top_k_compression({.fraction = options.top_k_fraction});
    case CompressionKind::power_sgd: return power_sgd_compression({.rank = options.power_sgd_rank});
  }
  return nullptr;
}

/// Every rank makes the whole update.
class Data : public SynchronousReplicas {
 public:
  Data(const StrategySetup& setup, const ReducerOptions& options)
      : SynchronousReplicas(setup, options),
        compressor_(options.compressor),
        optimizer_(setup.optimizer),
        state_(state_of(setup.optimizer, setup.model)) {}

  void zero_grad() override { optimizer_.zero_grad(); }
  double clip_gradients(double max_norm, double loss_scale) override {
    return clip_gradient_norm(model().parameters, parallel().reducer().options().parts, max_norm * loss_scale) / loss_scale;
  }
  Outcome update(double loss_scale) override {
    const Outcome result = outcome(loss_scale);
    if (result.left_out) return result;
    divide_gradients(model().parameters, loss_scale);
    optimizer_.step();
    return result;
  }
  torch::optim::Optimizer& optimizer() override { return optimizer_; }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = parameter_shards(model());
    append(shards, state_.shards());
    if (compressor_) append(shards, compressor_->shards());
    return shards;
  }
  void account(KnownMemory& known) const override {
    account_reduced(known);
    account_optimizer(known, state_.shards());
    if (!compressor_) return;
    for (const NamedShard& shard : compressor_->shards()) known.add(MemoryUse::buffers, shard.tensor);
  }
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { state_.apply(shards); }

 private:
  std::shared_ptr<Compressor> compressor_;
  torch::optim::Optimizer& optimizer_;
  OptimizerState state_;
};

}  // namespace

std::unique_ptr<Strategy> make_data(const StrategySetup& setup) {
  ReducerOptions options = reducer_options(setup);
  options.compressor = make_compressor(setup.options);
  return std::make_unique<Data>(setup, options);
}

StrategyMemory data_memory(const StrategyOptions& options, int ranks, const ModelMemory& model) {
  const bool has_residuals = options.compression == CompressionKind::top_k || options.compression == CompressionKind::power_sgd;
  const BucketBytes buckets = bucket_bytes(model);
  const int64_t n = trained_bytes(model);
  StrategyMemory memory = replica_memory(model);
  memory.kept[MemoryUse::gradients] = buckets.sum;
  memory.gradients_are_kept = true;
  memory.checkpoint /= ranks;
  if (options.compression != CompressionKind::none) memory.update = std::max(memory.update, n / 2);  // compressed gradients
  if (has_residuals) {
    memory.kept[MemoryUse::buffers] += buckets.sum;
    memory.checkpoint += n;
  }
  return memory;
}

}  // namespace tw::train
