// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/data_parallel/initial_values.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/places_in_model.hpp>
#include <tw/tensor/known_memory.hpp>

#include "expect_replicable.hpp"

namespace tw {
namespace {

/// Whether FullySharded leaves the parameter of `shard` whole: it is frozen and has no floating-point dtype, such as a table of indices.
bool is_left_whole(const ModelTensors& tensors, const NamedShard& shard) {
  return std::ranges::any_of(tensors.parameters, [&](const NamedTensor& each) {
    return !each.tensor.requires_grad() && !each.tensor.is_floating_point() && each.tensor.is_alias_of(shard.tensor);
  });
}

class ShardedParameters : public GradientSums {
 public:
  ShardedParameters(const SumRanks& ranks, TrainableModel& model, const ShardedParametersSetup& setup) : places_(model) {
    const FullyShardedSetup fully_sharded_setup{.replicas = ranks.data, .initial = setup.initial};
    const ModelTensors tensors = model.tensors();
    expect_replicable(ranks, tensors);
    expect_dense(ranks, tensors);
    const std::vector<NamedTensor> filled = with_memory(tensors.all_tensors());
    if (ranks.data != nullptr) synchronize(*ranks.data, filled);
    synchronize(*ranks.shard, filled);
    const bool trains_none = tensors.trained_elements() == 0;  // a stage may
    whole_ = model.shards();
    std::erase_if(whole_,
                  [&](const NamedShard& each) { return each.kind != ShardKind::parameter || !(trains_none || is_left_whole(tensors, each)); });
    if (trains_none) return;
    if (setup.module != nullptr && ranks.data == nullptr) {
      sharded_ = std::make_unique<FullySharded>(*ranks.shard, *setup.module, setup.options, fully_sharded_setup);
    } else {
      sharded_ = std::make_unique<FullySharded>(*ranks.shard, tensors.parameters, setup.options, fully_sharded_setup);
    }
    for (const at::Tensor& slice : sharded_->slices()) slice.requires_grad_();  // like those of any parameter
  }

  bool gathers_in_passes() const override { return true; }
  void only_in_updates(const std::string& otherwise) override {
    if (sharded_) sharded_->parallel().only_in_updates(otherwise);
  }
  std::shared_ptr<void> update() override { return sharded_ ? sharded_->update() : nullptr; }
  std::shared_ptr<void> hold() override {
    if (!sharded_) return nullptr;
    return std::make_shared<DataParallel::NoSync>(sharded_->parallel().no_sync());
  }
  void join() override {
    if (sharded_) sharded_->parallel().join_backward();
  }
  void parameters_written() override {
    if (sharded_) sharded_->slices_changed();
  }
  void restart(const SumRanks& ranks) override {
    if (sharded_) sharded_->restart_over(*ranks.shard, ranks.data);
  }
  std::vector<OptimizedTensor> optimized() const override {
    if (!sharded_) return {};
    std::vector<OptimizedTensor> all = sharded_->optimized();
    for (OptimizedTensor& each : all) {
      for (NamedShard& slice : each.slices) {
        slice = places_.in_whole(std::move(slice));
        slice.drop_other_names();
      }
    }
    return all;
  }
  std::vector<NamedShard> parameters() const override {
    std::vector<NamedShard> all = whole_;
    if (!sharded_) return all;
    for (NamedShard& each : sharded_->shards()) all.push_back(places_.in_whole(std::move(each)));
    return all;
  }
  void account(KnownMemory& known) const override {
    for (const NamedShard& each : parameters()) known.add(MemoryUse::parameters, each.tensor);
    if (!sharded_) return;
    for (const at::Tensor& each : sharded_->slices()) known.add(MemoryUse::gradients, each.grad());
    known.add(MemoryUse::buffers, sharded_->buffer_bytes());
    sharded_->parallel().reducer().account(known);
  }

  DataParallel* parallel() const override { return sharded_ ? &sharded_->parallel() : nullptr; }
  bool gradients_finite() const override { return !sharded_ || sharded_->gradients_finite(); }
  Seconds exposed_time() const override { return sharded_ ? sharded_->exposed_time() : Seconds(0); }
  int64_t payload_bytes() const override { return sharded_ ? sharded_->payload_bytes() : 0; }

 private:
  PlacesInModel places_;                   // before sharding
  std::unique_ptr<FullySharded> sharded_;  // none without trained parameters
  std::vector<NamedShard> whole_;          // parameters that are not sharded
};

}  // namespace

std::unique_ptr<GradientSums> sharded_parameters(const SumRanks& ranks, TrainableModel& model, const ShardedParametersSetup& setup) {
  return std::make_unique<ShardedParameters>(ranks, model, setup);
}

}  // namespace tw
