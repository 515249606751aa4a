// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <tw/data_parallel/unit_memory.hpp>
#include <tw/gradients/compression.hpp>

#include "step_votes.hpp"
#include "trained_part.hpp"

namespace tw::train {
namespace {

std::shared_ptr<Compressor> make_compressor(const ReplicaOptions& options) {
  switch (options.compression) {
    case CompressionKind::none: return nullptr;
    case CompressionKind::float16: return half_compression(HalfPrecision::float16);
    case CompressionKind::bfloat16: return half_compression(HalfPrecision::bfloat16);
    case CompressionKind::top_k: return top_k_compression({.fraction = options.top_k_fraction});
    case CompressionKind::power_sgd: return power_sgd_compression({.rank = options.power_sgd_rank});
  }
  return nullptr;
}

/// A communicator with the ranks that do not sum gradients with this one. Votes travel with gradients along one axis only.
const Communicator* beyond_sums(const Ranks& ranks) { return ranks.shard != nullptr && ranks.data.size() > 1 ? &ranks.all : ranks.parts; }

/// Gradients are summed in every step. Each rank updates its part of the model, or its slices of that part.
class EveryStep : public Strategy {
 public:
  EveryStep(const StrategySetup& setup, const std::shared_ptr<Compressor>& compressor)
      : ranks_(setup.ranks), compressor_(compressor), part_(setup, &setup.ranks.data, compressor), votes_(part_.sums(), beyond_sums(setup.ranks)) {}

  bool ranks_pass_in_step() const override { return part_.sums().gathers_in_passes(); }
  const Communicator* summing_ranks() const override { return &ranks_.samples; }
  void zero_grad() override { part_.zero_grad(); }
  // The sum over ranks and passes is the mean over the update's samples.
  void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) override {
    if (pass_and_sum(part_.sums(), share, [&] { pass(share.weight); })) votes_.collect();
  }
  void raise(Signal word) override { votes_.raise(word); }
  double clip_gradients(double max_norm, double loss_scale) override { return part_.clip_gradients(max_norm, loss_scale); }
  Outcome update(double loss_scale) override {
    const Outcome result = votes_.outcome(loss_scale);
    if (result.skipped) return result;
    part_.divide_gradients(loss_scale);
    part_.optimizer().step();
    return result;
  }
  torch::optim::Optimizer& optimizer() override { return part_.optimizer(); }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = part_.shards();
    if (compressor_) append(shards, compressor_->shards());
    return shards;
  }
  void prepare(const std::vector<std::string>& names) override { part_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { part_.apply(shards); }
  void account(KnownMemory& known) const override {
    part_.account(known);
    if (!compressor_) return;
    for (const NamedShard& shard : compressor_->shards()) known.add(MemoryUse::buffers, shard.tensor);
  }
  std::vector<NamedShard> exported_shards() const override { return part_.exported_shards(); }
  std::vector<int64_t> arrival_order() const override {
    return part_.is_sharded() ? std::vector<int64_t>() : part_.sums().parallel()->reducer().arrival_order();
  }
  Seconds exposed_time() const override { return part_.sums().exposed_time(); }
  int64_t payload_bytes() const override { return part_.sums().payload_bytes(); }

 private:
  const Ranks& ranks_;
  std::shared_ptr<Compressor> compressor_;
  TrainedPart part_;
  StepVotes votes_;
};

}  // namespace

std::unique_ptr<Strategy> make_every_step(const StrategySetup& setup) { return std::make_unique<EveryStep>(setup, make_compressor(setup.replicas)); }

StrategyMemory whole_memory(const ReplicaOptions& options, int ranks, const ModelMemory& model) {
  const int64_t n = trained_bytes(model);
  StrategyMemory memory = summing_memory(model);
  memory.checkpoint /= ranks;
  if (options.compression != CompressionKind::none) memory.update = std::max(memory.update, n / 2);  // compressed gradients
  if (options.keeps_residuals()) {
    memory.kept[MemoryUse::buffers] += bucket_bytes(model).sum;
    memory.checkpoint += n;
  }
  return memory;
}

StrategyMemory sharded_parameters_memory(const ShardOptions& options, int ranks, const ModelMemory& model) {
  const BucketBytes units = bucket_bytes(model, {options.unit_bytes, options.unit_bytes}, ranks);
  StrategyMemory memory = shard_memory(ranks, model);
  memory.kept[MemoryUse::parameters] = (units.sum + model.frozen_bytes) / ranks;
  memory.kept[MemoryUse::gradients] = units.sum / ranks;
  memory.kept[MemoryUse::buffers] += units.largest;
  if (!options.one_copy_per_node)
    memory.kept[MemoryUse::buffers] += buffer_bytes_for_units(units.each, options.prefetch_units, options.resident_bytes);
  memory.backward = units.in_flight();
  return memory;
}

}  // namespace tw::train
