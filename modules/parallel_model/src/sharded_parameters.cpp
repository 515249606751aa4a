// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/data_parallel/synchronize.hpp>

#include "gradient_sums.hpp"
#include "mesh_axes.hpp"
#include "program.hpp"

namespace tw {
namespace {

using Places = std::map<std::string, NamedShard>;

/// By parameter of the program: its place in the whole model.
Places places_of(const TrainableModel& model) {
  Places places;
  const std::vector<NamedShard> shards = model.shards();
  for (const auto& [name, tensor] : model.tensors().parameters) {
    const auto place = std::find_if(shards.begin(), shards.end(), [&](const NamedShard& shard) {
      return shard.kind == ShardKind::parameter && shard.tensor.is_alias_of(tensor) && shard.tensor.sizes() == tensor.sizes();
    });
    TW_ASSERT(place != shards.end());
    places.emplace(name, *place).first->second.tensor = at::Tensor();
  }
  return places;
}

/// A part of a program's parameter, as a part of the whole model's.
NamedShard in_whole_model(NamedShard part, const Places& places) {
  const NamedShard& place = places.at(part.name);
  part.name = place.name;
  part.aliases = place.aliases;
  part.global_shape = place.global_shape;
  for (size_t i = 0; i < part.offsets.size(); ++i) part.offsets[i] += place.offsets[i];
  return part;
}

class ShardedParameters : public GradientSums {
 public:
  ShardedParameters(const Mesh& mesh, Program& program, const ParallelOptions& options) : places_(places_of(program.model())) {
    TrainableModel& model = program.model();
    const std::shared_ptr<torch::nn::Module> module = program.module();
    const Communicator& shard = mesh["shard"];
    const FullyShardedOptions sharding{.reduction = Reduction::sum,
                                       .unit_bytes = options.unit_bytes,
                                       .prefetch_units = options.prefetch_units,
                                       .resident_bytes = program.reuses_parameters() ? std::numeric_limits<int64_t>::max() : options.resident_bytes};
    const Communicator* data = size_along(mesh.shape(), "data") > 1 ? &mesh["data"] : nullptr;
    const FullyShardedSetup setup{.replicas = options.replicas == ReplicaMeeting::every_step ? data : nullptr, .initial = program.initial()};
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
  std::vector<OptimizedTensor> optimized() const override {
    if (!sharded_) return {};
    std::vector<OptimizedTensor> all = sharded_->optimized();
    for (OptimizedTensor& each : all) {
      for (NamedShard& slice : each.slices) {
        slice = in_whole_model(std::move(slice), places_);
        slice.aliases.clear();  // optimizer state is named after one name only
      }
    }
    return all;
  }
  std::vector<NamedShard> parameters() const override {
    if (!sharded_) return whole_;
    std::vector<NamedShard> all = sharded_->shards();
    for (NamedShard& each : all) each = in_whole_model(std::move(each), places_);
    return all;
  }

 private:
  Places places_;
  std::optional<FullySharded> sharded_;  // none without trained parameters
  std::vector<NamedShard> whole_;        // which then stay whole
};

}  // namespace

std::unique_ptr<GradientSums> sharded_parameters(const Mesh& mesh, Program& program, const ParallelOptions& options) {
  return std::make_unique<ShardedParameters>(mesh, program, options);
}

}  // namespace tw
