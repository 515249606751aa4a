// SPDX-License-Identifier: Apache-2.0
#include "layer_program.hpp"

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/library.hpp>
#include <tw/planning/stage_ranks.hpp>

#include "mesh_axes.hpp"
#include "module_check.hpp"
#include "split_layers.hpp"
#include "stage_options.hpp"

namespace tw {
namespace {

using layer_parallel::LayerParallel;
using pipeline::Rows;
using Tensors = std::vector<at::Tensor>;

/// Numbers the training passes of a network by micro-batch, so that random layers draw the same numbers in one stage and in several.
struct PassNumbers {
  int64_t first = 0;  // number of the first pass of the update
  int64_t rows = 0;   // rows of the update at this place
  int64_t micro_batches = 1;

  /// @param begin first row of the micro-batch
  int64_t of(int64_t begin) const {
    int64_t m = 0;
    while (m + 1 < micro_batches && pipeline::part_of({0, rows}, micro_batches, m).end <= begin) ++m;
    return first + m;
  }
};

/// A stage of a pipeline whose tensors are those of a network of layers in parallel.
class StageOfLayers : public ModelDecorator {
 public:
  StageOfLayers(std::shared_ptr<pipeline::Pipeline> pipeline, std::shared_ptr<LayerParallel> net)
      : ModelDecorator(std::move(pipeline)), net_(std::move(net)) {}

  std::vector<std::string> axes() const override { return {"stage", "layer"}; }
  const Communicator* holders() const override { return nullptr; }
  std::vector<NamedShard> shards() const override { return net_->shards(); }
  std::vector<NamedShard> exported_shards() const override { return net_->exported_shards(); }
  std::vector<OptimizedTensor> optimized_tensors() const override { return net_->optimized_tensors(); }
  /// The network restores modes of layers that the pipeline does not see.
  void set_training(bool training) override {
    if (!training) net_->set_training(false);
    inner()->set_training(training);
    if (training) net_->set_training(true);
  }

 private:
  std::shared_ptr<LayerParallel> net_;
};

/// The communicator of a network: the ranks along `layer`. Collective over the mesh.
Communicator ranks_of_network(const Mesh& mesh) {
  return size_along(mesh.shape(), "layer") > 1 ? mpi::share(mesh["layer"]) : mesh.comm().split(mesh.comm().rank(), 0);
}

std::function<void(const Mesh&)> restarting(const std::shared_ptr<LayerParallel>& net) {
  return [net](const Mesh& mesh) { net->restart_over(ranks_of_network(mesh)); };
}

std::unique_ptr<Program> in_one_stage(const Mesh& mesh, const std::shared_ptr<LayerParallel>& net, const Tensors& example,
                                      const ParallelOptions& options) {
  const auto forward = [net = net.get()](const Tensors& inputs) { return Tensors{net->forward(inputs.at(0))}; };
  const auto begin = [net = net.get()](int64_t pass, int64_t place) {
    net->set_calls(pass);
    net->set_replica(place);
  };
  return autograd_program(
      {.model = net, .forward = forward, .example = example, .reads = reads_outputs(mesh), .begin = begin, .restart = restarting(net)}, options);
}

std::unique_ptr<Program> in_stages(const Mesh& mesh, const std::shared_ptr<LayerParallel>& net, const Tensors& example,
                                   const ParallelOptions& options) {
  const auto numbers = std::make_shared<PassNumbers>();
  const pipeline::Stage::Forward forward = [net, numbers](const Tensors& inputs, const graph::PassRows& rows) {
    TW_EXPECTS(inputs.size() == 1, "a block of layer_parallel takes one tensor, got ", inputs.size());
    net->set_calls(numbers->of(rows.first));
    return Tensors{net->forward(inputs.front())};
  };
  const auto begin = [net, numbers, micro_batches = options.micro_batches](int64_t update, int64_t rows, int64_t place) {
    *numbers = {update * micro_batches, rows, micro_batches};
    net->set_calls(numbers->first);
    net->set_replica(place);
  };
  auto made = std::make_shared<pipeline::Pipeline>(
      mesh["stage"], pipeline::StageModel{.module = net, .stages = {{forward}}, .trains_elsewhere = true}, stage_options(mesh, options));
  return pipeline_program({.pipeline = made,
                           .model = std::make_shared<StageOfLayers>(made, net),
                           .example = example,
                           .reads = reads_outputs(mesh),
                           .begin = begin,
                           .restart = restarting(net)});
}

}  // namespace

std::unique_ptr<Program> layer_program(const Mesh& mesh, const std::vector<layer_parallel::Block>& blocks, const Tensors& example,
                                       const layer_parallel::LayerParallelOptions& layers, const ParallelOptions& options) {
  const int stages = size_along(mesh.shape(), "stage");
  const pipeline::ScheduleKind schedule = schedule_of_blocks(options);
  TW_EXPECTS(stages == 1 || pipeline::stages_per_device(schedule) == 1, "layers in parallel need one stage on each rank along `stage`, but the ",
             "schedule ", pipeline::name_of(schedule), " has ", pipeline::stages_per_device(schedule), ": use gpipe or 1f1b");
  TW_EXPECTS(blocks.size() >= static_cast<size_t>(stages), blocks.size(), " blocks for ", stages, " stages: each needs at least one block");
  const Rows part = pipeline::part_of({0, static_cast<int64_t>(blocks.size())}, stages, stages > 1 ? mesh.coordinate("stage") : 0);
  const Communicator line = ranks_of_network(mesh);
  const auto net = on_all_ranks(mesh.comm(), "making the layers", [&] {
    auto made = std::make_shared<LayerParallel>(line, blocks, layers, layer_parallel::BlockRange{part.begin, part.end});
    made->for_each_layer(&expect_no_exchange);
    return made;
  });
  expect_split_layers(mesh, net->has_split_layers());
  return stages > 1 ? in_stages(mesh, net, example, options) : in_one_stage(mesh, net, example, options);
}

}  // namespace tw
