// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <optional>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/places_in_model.hpp>

#include "gradient_sums.hpp"
#include "mesh_axes.hpp"
#include "program.hpp"

namespace tw {
namespace {

class ShardedParameters : public GradientSums {
 public:
  ShardedParameters(const Mesh& mesh, Program& program, const ParallelOptions& options)
      : places_(program.model()), are_apart_(options.replicas == ReplicaMeeting::apart) {
    TrainableModel& model = program.model();
    const std::shared_ptr<torch::nn::Module> module = program.module();
    const Communicator& shard = mesh["shard"];
    const FullyShardedOptions sharding{.reduction = Reduction::sum,
                                       .unit_bytes = options.unit_bytes,
                                       .prefetch_units = options.prefetch_units,
                                       .resident_bytes = program.reuses_parameters() ? std::numeric_limits<int64_t>::max() : options.resident_bytes};
    const Communicator* data = size_along(mesh.shape(), "data") > 1 ? &mesh["data"] : nullptr;
    const FullyShardedSetup setup{.replicas = replicas_of(mesh), .initial = program.initial()};
    const ModelTensors tensors = model.tensors();
    const std::vector<NamedTensor> filled = with_memory(tensors.all_tensors());
    if (data != nullptr) synchronize(*data, filled);
    synchronize(shard, filled);
    if (tensors.trained_elements() == 0) {  // a stage may have none
      whole_ = model.shards();
      std::erase_if(whole_, [](const NamedShard& each) { return each.kind != ShardKind::parameter; });
    } else if (module && setup.replicas == nullptr) {
      sharded_.emplace(shard, *module, sharding, setup);
    } else {
      sharded_.emplace(shard, tensors.parameters, sharding, setup);
    }
    if (sharded_) {
      for (const at::Tensor& slice : sharded_->slices()) slice.requires_grad_();  // as of any parameter
    }
  }

  bool gathers_in_passes() const override { return true; }
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
  void restart(const Mesh& mesh, const Communicator* /*model_ranks*/) override {
    if (sharded_) sharded_->restart_over(mesh["shard"], replicas_of(mesh));
  }
  std::vector<OptimizedTensor> optimized() const override {
    if (!sharded_) return {};
    std::vector<OptimizedTensor> all = sharded_->optimized();
    for (OptimizedTensor& each : all) {
      for (NamedShard& slice : each.slices) {
        slice = places_.in_whole(std::move(slice));
        slice.aliases.clear();  // optimizer state is named after one name only
      }
    }
    return all;
  }
  std::vector<NamedShard> parameters() const override {
    if (!sharded_) return whole_;
    std::vector<NamedShard> all = sharded_->shards();
    for (NamedShard& each : all) each = places_.in_whole(std::move(each));
    return all;
  }

 private:
  /// The ranks with the same slices, if they meet in an update.
  const Communicator* replicas_of(const Mesh& mesh) const { return size_along(mesh.shape(), "data") > 1 && !are_apart_ ? &mesh["data"] : nullptr; }

  PlacesInModel places_;
  bool are_apart_;
  std::optional<FullySharded> sharded_;  // none without trained parameters
  std::vector<NamedShard> whole_;        // which then stay whole
};

}  // namespace

std::unique_ptr<GradientSums> sharded_parameters(const Mesh& mesh, Program& program, const ParallelOptions& options) {
  return std::make_unique<ShardedParameters>(mesh, program, options);
}

}  // namespace tw
