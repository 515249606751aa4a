// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_model/parallelize.hpp>

#include <ATen/ops/full.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/tensor_parallel/split_model.hpp>

#include "make_parallel_model.hpp"
#include "mesh_axes.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The same mesh with communicators of its own, which can be revoked without ending the user's. Collective.
std::shared_ptr<const Mesh> own_mesh(const Mesh& mesh) { return std::make_shared<const Mesh>(mesh.comm(), mesh.shape().axes()); }

void expect_options(const Mesh& mesh, const ParallelOptions& options) {
  std::vector<std::string> lines = value_lines(options);
  lines.push_back(std::to_string(options.seed));
  expect_same_on_all_ranks(mesh.comm(), "the options of parallelize()", lines);
  options.validate();
}

bool has_split_layers(const torch::nn::Module& module) {
  const auto modules = module.modules();
  return std::ranges::any_of(modules, [](const auto& each) { return dynamic_cast<const SlicedModule*>(each.get()) != nullptr; });
}

/// `model` itself, or the same with split layers.
std::shared_ptr<TrainableModel> with_split_layers(const std::shared_ptr<torch::nn::Module>& module, std::shared_ptr<TrainableModel> model) {
  return has_split_layers(*module) ? tensor_parallel::split_model(module, std::move(model)) : model;
}

/// Collective. @throws ContractError if the mesh has the axis `tensor`, and no rank has a layer that is split along it
void expect_split_layers(const Mesh& mesh, const torch::nn::Module& module) {
  if (size_along(mesh.shape(), "tensor") == 1) return;
  const at::Tensor split = at::full({}, has_split_layers(module) ? 1 : 0, at::kLong);
  allreduce(mesh.comm(), split, ReduceOp::max);
  TW_EXPECTS(split.item<int64_t>() > 0, "the mesh is ", mesh.shape().describe(),
             ", but no layer of the model is split along `tensor`: build it with tensor_parallel::ColumnParallelLinear and the like");
}

/// One of the ranks along `axis`, which all have the same outputs.
bool reads_outputs(const Mesh& mesh, const std::string& axis) { return size_along(mesh.shape(), axis) == 1 || mesh.coordinate(axis) == 0; }

/// @param forward of lists; the trainer's interface takes one tensor
std::shared_ptr<TrainableModel> whole(const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward) {
  return whole_model(module, [forward](const at::Tensor& inputs) { return forward({inputs}).at(0); });
}

ParallelModel whole_module(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward, const Tensors& example,
                           const ParallelOptions& options) {
  auto model = with_split_layers(module, whole(module, forward));
  return make_parallel_model(
      mesh, own_mesh(mesh),
      autograd_program({.module = module, .model = std::move(model), .forward = forward, .example = example, .reads = reads_outputs(mesh, "tensor")},
                       options),
      options);
}

pipeline::Schedule schedule_of(int stages, const ParallelOptions& options) {
  const auto micro_batches = static_cast<int>(options.micro_batches);
  return options.schedule == pipeline::ScheduleKind::gpipe ? pipeline::gpipe(stages, micro_batches)
                                                           : pipeline::one_forward_one_backward(stages, micro_batches);
}

ParallelModel planned_stages(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward,
                             const Tensors& example, const ParallelOptions& options) {
  const auto own = own_mesh(mesh);
  const int stages = (*own)["stage"].size();
  const pipeline::ModelPlan plan = pipeline::plan_together(own->comm(), *module, forward, example,
                                                           {.devices = stages,
                                                            .micro_batches = static_cast<int>(options.micro_batches),
                                                            .schedule = options.schedule,
                                                            .stages = stages,
                                                            .recompute = {options.recompute},
                                                            .profile_cache = options.profile_cache});
  auto made = std::make_shared<pipeline::Pipeline>((*own)["stage"], *module, plan, options.seed);
  return make_parallel_model(mesh, own, pipeline_program({.pipeline = made, .model = made, .example = example, .explanation = plan.explain()}),
                             options);
}

/// The blocks as one module, named like a torch::nn::Sequential of them.
ParallelModel one_module(const Mesh& mesh, const std::vector<pipeline::BlockFactory>& factories, const Tensors& example,
                         const ParallelOptions& options) {
  auto module = std::make_shared<torch::nn::Module>();
  std::vector<pipeline::Block> blocks;
  for (const pipeline::BlockFactory& make : factories) {
    blocks.push_back(make());
    module->register_module(std::to_string(blocks.size() - 1), blocks.back().module);
  }
  expect_split_layers(mesh, *module);
  const graph::Forward forward = [blocks](const Tensors& inputs) {
    TW_EXPECTS(inputs.size() == 1, "blocks take one tensor, got ", inputs.size());
    at::Tensor x = inputs.front();
    for (const pipeline::Block& each : blocks) x = each.forward(x);
    return Tensors{x};
  };
  return whole_module(mesh, module, forward, example, options);
}

}  // namespace

ParallelModel parallelize(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward, const Tensors& example,
                          const ParallelOptions& options) {
  expect_options(mesh, options);
  expect_axes(mesh.shape(), {{"layer", "a module as a whole has no layers that run in parallel along `layer`: pass blocks of layer_parallel"}});
  expect_split_layers(mesh, *module);
  const bool split = has_split_layers(*module);
  const int stages = size_along(mesh.shape(), "stage");
  TW_EXPECTS(stages == 1 || !split, "the mesh is ", mesh.shape().describe(),
             ", but a module with split layers cannot be cut by itself: pass it as a list of blocks");
  if (!split) synchronize(mesh.comm(), *module);
  return stages > 1 ? planned_stages(mesh, module, forward, example, options) : whole_module(mesh, module, forward, example, options);
}

ParallelModel parallelize(const Mesh& mesh, const std::vector<pipeline::BlockFactory>& blocks, const Tensors& example,
                          const ParallelOptions& options) {
  expect_options(mesh, options);
  expect_axes(mesh.shape(), {{"layer", "these blocks do not run in parallel along `layer`: pass blocks of layer_parallel"}});
  if (size_along(mesh.shape(), "stage") == 1) return one_module(mesh, blocks, example, options);
  const auto own = own_mesh(mesh);
  const Communicator& line = (*own)["stage"];
  const pipeline::PipelineOptions stages{
      .schedule = schedule_of(line.size(), options), .recompute = std::vector(at(line.size()), options.recompute), .seed = options.seed};
  auto made = std::make_shared<pipeline::Pipeline>(line, blocks, stages);
  expect_split_layers(mesh, *made);
  return make_parallel_model(
      mesh, own,
      pipeline_program({.pipeline = made, .model = with_split_layers(made, made), .example = example, .reads = reads_outputs(mesh, "tensor")}),
      options);
}

ParallelModel parallelize(const Mesh& mesh, const std::vector<layer_parallel::Block>& blocks, const Tensors& example,
                          const layer_parallel::LayerParallelOptions& layers, const ParallelOptions& options) {
  expect_options(mesh, options);
  expect_axes(mesh.shape(),
              {{"stage", "blocks of layer_parallel are not cut along `stage`"}, {"tensor", "their layers are not split along `tensor`"}});
  const bool several = size_along(mesh.shape(), "layer") > 1;
  const auto own = own_mesh(mesh);
  const Communicator alone = own->comm().split(own->comm().rank(), 0);
  auto made = std::make_shared<layer_parallel::LayerParallel>(several ? (*own)["layer"] : alone, blocks, layers);
  const auto forward = [net = made.get()](const Tensors& inputs) { return Tensors{net->forward(inputs.at(0))}; };
  const auto begin = [net = made.get()](int64_t pass, int64_t place) {
    net->set_calls(pass);
    net->set_replica(place);
  };
  return make_parallel_model(
      mesh, own,
      autograd_program({.module = made, .model = made, .forward = forward, .example = example, .reads = reads_outputs(mesh, "layer"), .begin = begin},
                       options),
      options);
}

}  // namespace tw
