// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/tensor/known_memory.hpp>

#include "expect_replicable.hpp"

namespace tw {
namespace {

class WholeParameters : public GradientSums {
 public:
  WholeParameters(const SumRanks& ranks, TrainableModel& model, DataParallelOptions options) : model_(model), options_(std::move(options)) {
    if (ranks.data == nullptr) return;
    const ModelTensors tensors = model.tensors();
    if (ranks.data->size() > 1) expect_replicable(ranks, tensors);
    options_.sparse = tensors.sparse;
    meet(ranks);
  }

  void restart(const SumRanks& ranks) override {
    if (ranks.data == nullptr) return;
    if (parallel_) options_.arrival_order = parallel_->reducer().arrival_order();
    parallel_.reset();
    meet(ranks);
  }

  void only_in_updates(const std::string& otherwise) override {
    otherwise_ = otherwise;
    if (parallel_) parallel_->only_in_updates(otherwise);
  }
  std::shared_ptr<void> update() override { return parallel_ ? parallel_->update() : nullptr; }
  std::shared_ptr<void> hold() override {
    if (!parallel_) return nullptr;
    return std::make_shared<DataParallel::NoSync>(parallel_->no_sync());
  }
  void join() override {
    if (parallel_) parallel_->join_backward();
  }
  std::vector<OptimizedTensor> optimized() const override { return model_.trained_tensors(); }
  std::vector<NamedShard> parameters() const override {
    std::vector<NamedShard> shards = model_.shards();
    std::erase_if(shards, [](const NamedShard& shard) { return shard.kind != ShardKind::parameter; });
    return shards;
  }
  void account(KnownMemory& known) const override {
    for (const NamedTensor& each : model_.tensors().parameters) {
      known.add(MemoryUse::parameters, each.tensor);
      known.add(MemoryUse::gradients, gradient_of(each.tensor));
    }
    if (parallel_) parallel_->reducer().account(known);
  }

  DataParallel* parallel() const override { return parallel_.get(); }
  bool gradients_finite() const override { return !parallel_ || parallel_->gradients_finite(); }
  Seconds exposed_time() const override { return parallel_ ? parallel_->exposed_time() : Seconds(0); }
  int64_t payload_bytes() const override { return parallel_ ? parallel_->reducer().payload_bytes() : 0; }

 private:
  void meet(const SumRanks& ranks) {
    options_.parts = {};
    if (ranks.model != nullptr) options_.parts = {model_parts(*ranks.model, model_)};  // collective, also for a stage that trains nothing
    const ModelTensors tensors = model_.tensors();
    if (tensors.trained_elements() == 0) return;
    parallel_ = std::make_unique<DataParallel>(*ranks.data, tensors.all_tensors(), options_);
    if (!otherwise_.empty()) parallel_->only_in_updates(otherwise_);
  }

  TrainableModel& model_;
  DataParallelOptions options_;
  std::string otherwise_;                   // see only_in_updates()
  std::unique_ptr<DataParallel> parallel_;  // none where nothing is summed
};

}  // namespace

std::unique_ptr<GradientSums> whole_parameters(const SumRanks& ranks, TrainableModel& model, DataParallelOptions options) {
  return std::make_unique<WholeParameters>(ranks, model, std::move(options));
}

}  // namespace tw
