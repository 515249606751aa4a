// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/synchronize.hpp>

#include "gradient_sums.hpp"
#include "mesh_axes.hpp"

namespace tw {
namespace {

class WholeParameters : public GradientSums {
 public:
  WholeParameters(const Mesh& mesh, const Communicator* model_ranks, TrainableModel& model, const ParallelOptions& options)
      : model_(model), are_apart_(options.replicas == ReplicaMeeting::apart), compressor_(options.compressor) {
    if (size_along(mesh.shape(), "data") == 1) return;
    model.tensors().expect_replicable();
    meet(mesh, model_ranks, {});
  }

  void restart(const Mesh& mesh, const Communicator* model_ranks) override {
    if (size_along(mesh.shape(), "data") == 1) return;
    const std::vector<int64_t> arrival_order = parallel_ ? parallel_->reducer().arrival_order() : std::vector<int64_t>();
    parallel_.reset();
    meet(mesh, model_ranks, arrival_order);
  }

  std::shared_ptr<void> hold() override {
    if (!parallel_) return nullptr;
    return std::make_shared<DataParallel::NoSync>(parallel_->no_sync());
  }
  void join() override {
    if (parallel_) parallel_->join_backward();
  }
  std::vector<OptimizedTensor> optimized() const override {
    std::vector<OptimizedTensor> trained = model_.optimized_tensors();
    std::erase_if(trained, [](const OptimizedTensor& each) { return !each.tensor.requires_grad(); });
    return trained;
  }
  std::vector<NamedShard> parameters() const override {
    std::vector<NamedShard> shards = model_.shards();
    std::erase_if(shards, [](const NamedShard& shard) { return shard.kind != ShardKind::parameter; });
    return shards;
  }

 private:
  void meet(const Mesh& mesh, const Communicator* model_ranks, const std::vector<int64_t>& arrival_order) {
    const ModelTensors tensors = model_.tensors();
    DataParallelOptions options{.reduction = Reduction::sum, .arrival_order = arrival_order, .sparse = tensors.sparse, .compressor = compressor_};
    if (model_ranks != nullptr) options.parts = {model_parts(*model_ranks, model_)};
    if (tensors.trained_elements() > 0 && !are_apart_) {
      parallel_.emplace(mesh["data"], tensors.all_tensors(), options);
    } else {  // also a stage that has none
      synchronize(mesh["data"], tensors.all_tensors());
    }
  }

  TrainableModel& model_;
  bool are_apart_;
  std::shared_ptr<Compressor> compressor_;
  std::optional<DataParallel> parallel_;  // none where nothing is summed
};

}  // namespace

std::unique_ptr<GradientSums> whole_parameters(const Mesh& mesh, const Communicator* model_ranks, TrainableModel& model,
                                               const ParallelOptions& options) {
  return std::make_unique<WholeParameters>(mesh, model_ranks, model, options);
}

}  // namespace tw
