// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_model/parallelize.hpp>

#include <algorithm>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/data_parallel/dropped_values.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/tensor_parallel/captured_ranks.hpp>
#include <tw/tensor_parallel/split_model.hpp>

#include "cut_module.hpp"
#include "divided_operators.hpp"
#include "layer_program.hpp"
#include "make_parallel_model.hpp"
#include "mesh_axes.hpp"
#include "module_check.hpp"
#include "split_layers.hpp"
#include "stage_options.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

void expect_options(const Mesh& mesh, const ParallelOptions& options) {
  std::vector<std::string> lines = value_lines(options);
  lines.push_back(std::to_string(options.seed));
  if (options.compressor) lines.push_back(options.compressor->describe());
  expect_same_on_all_ranks(mesh.comm(), "the options of parallelize()", lines);
  options.validate();
  if (!options.compressor) return;
  TW_EXPECTS(size_along(mesh.shape(), "shard") == 1, "gradients along `shard` cannot be compressed: leave out the axis or the compressor");
  TW_EXPECTS(options.replicas == ReplicaSync::every_step,
             "a compressor has no use if replicas train independently, since no gradients are reduced: leave it out");
}

/// `model` itself, or the same with split layers.
std::shared_ptr<TrainableModel> with_split_layers(const std::shared_ptr<torch::nn::Module>& module, std::shared_ptr<TrainableModel> model) {
  return has_split_layers(*module) ? tensor_parallel::split_model(module, std::move(model)) : model;
}

/// @param forward of lists; the trainer's interface takes one tensor
std::shared_ptr<TrainableModel> whole(const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward) {
  return whole_model(module, [forward](const at::Tensor& inputs) { return forward({inputs}).at(0); });
}

using Initial = std::shared_ptr<const InitialValues>;

/// @param initial null: all tensors have memory
void allocate(const Initial& initial, const std::vector<NamedTensor>& tensors) {
  if (initial == nullptr) return;
  for (const auto& [name, tensor] : tensors) initial->allocate(tensor, name);
}

/// Gives memory to the module's buffers, and to its parameters if they are not sharded.
void allocate(const Initial& initial, const Mesh& mesh, const torch::nn::Module& module) {
  const ModelTensors tensors = model_tensors(module);
  allocate(initial, tensors.buffers);
  if (size_along(mesh.shape(), "shard") == 1) allocate(initial, tensors.parameters);
}

ParallelModel whole_module(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward, const Tensors& example,
                           const ParallelOptions& options, const Initial& initial) {
  allocate(initial, mesh, *module);
  auto model = with_split_layers(module, whole(module, forward));
  return make_parallel_model(
      mesh, std::make_shared<Calls>(mesh, options.replicas),
      autograd_program(
          {.module = module, .model = std::move(model), .forward = forward, .example = example, .reads = reads_outputs(mesh), .initial = initial},
          options),
      options);
}

/// Lets the operators of a captured module with split layers communicate on the mesh of `calls`. Leaves the user's objects as they are: user-defined
/// operators may communicate through them. @return a function that changes the mesh
std::function<void(const Mesh& mesh)> move_split_layers(Calls& calls, const torch::nn::Module& module, pipeline::ModelPlan& plan) {
  const Communicator* holders = slice_holders(module);
  if (holders == nullptr || size_along(calls.mesh().shape(), "tensor") == 1) return {};
  const auto ranks = std::make_shared<tensor_parallel::CapturedRanks>(*holders);
  bool has_user_objects = false;
  plan.replace_objects([&](const graph::Object& object) {
    const c10::IValue replacement = ranks->replacing(object);
    has_user_objects = has_user_objects || replacement.isSameIdentity(object.value);
    return replacement;
  });
  on_all_ranks(calls.mesh().comm(), "dividing split layers", [&] { ranks->set(calls.mesh()["tensor"]); });
  if (!has_user_objects) calls.split_layers_use_mesh();
  return [ranks](const Mesh& mesh) { ranks->set(mesh["tensor"]); };
}

/// @param divided the module with divided operators; null: `module` runs as it is
ParallelModel planned_stages(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward,
                             const DividedOperators* divided, const Tensors& example, const ParallelOptions& options, const Initial& initial) {
  const auto calls = std::make_shared<Calls>(mesh, options.replicas);
  const Communicator& line = calls->mesh()["stage"];
  allocate(initial, model_tensors(*module).buffers);
  const pipeline::ModelPlanOptions plan_options{.devices = line.size(),
                                                .micro_batches = static_cast<int>(options.micro_batches),
                                                .schedule = options.schedule,
                                                .stages = line.size(),
                                                .recompute = {options.recompute},
                                                .profile_cache = options.profile_cache};
  const std::shared_ptr<torch::nn::Module>& planned = divided == nullptr ? module : divided->module;
  pipeline::ModelPlan plan = divided == nullptr ? pipeline::plan_together(calls->mesh().comm(), *module, forward, example, plan_options)
                                                : pipeline::plan_together(calls->mesh().comm(), *planned, divided->graphs, example, plan_options);
  const auto restart = move_split_layers(*calls, *planned, plan);
  pipeline::StageModel stages = on_all_ranks(calls->mesh().comm(), "making the stages of a planned model", [&] {
    pipeline::StageModel mine = plan.stages(*planned, line.rank());
    allocate(initial, mesh, *mine.module);
    return mine;
  });
  const std::shared_ptr<torch::nn::Module> mine = stages.module;
  auto made = std::make_shared<pipeline::Pipeline>(line, std::move(stages), plan.options(options.seed));
  const auto cut = std::make_shared<CutModule>(module);
  ParallelModel model = make_parallel_model(mesh, calls,
                                            pipeline_program({.pipeline = made,
                                                              .model = with_split_layers(mine, stages_of_module(made, cut)),
                                                              .example = example,
                                                              .reads = reads_outputs(mesh),
                                                              .problem = [cut] { return cut->problem(); },
                                                              .mode = [cut] { return cut->mode(); },
                                                              .before_pass = [cut, stages = made.get()] { cut->apply_mode_to(*stages); },
                                                              .restart = restart,
                                                              .explanation = (divided == nullptr ? "" : divided->explanation) + plan.explain(),
                                                              .initial = initial}),
                                            options);
  cut->keep_only(*mine);
  return model;
}

/// `mesh` with an axis `stage` of one rank; empty if it has one. Collective.
std::optional<Mesh> with_stage(const Mesh& mesh) {
  std::vector<MeshAxis> axes = mesh.shape().axes();
  if (std::ranges::find(axes, "stage", &MeshAxis::name) != axes.end()) return std::nullopt;
  axes.push_back({"stage", 1});
  return Mesh(mesh.comm(), std::move(axes));
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
  for_each_layer(*module, &expect_no_exchange);
  expect_split_layers(mesh, has_split_layers(*module));
  const graph::Forward forward = [blocks](const Tensors& inputs) {
    TW_EXPECTS(inputs.size() == 1, "a block takes one tensor, got ", inputs.size());
    at::Tensor x = inputs.front();
    for (const pipeline::Block& each : blocks) x = each.forward(x);
    return Tensors{x};
  };
  return whole_module(mesh, module, forward, example, options, nullptr);
}

/// @param initial null: all tensors have memory
ParallelModel parallelize_module(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward,
                                 const Tensors& example, const ParallelOptions& options, const Initial& initial) {
  expect_axes(mesh.shape(), {{"layer", "a whole module has no layers that run in parallel along `layer`: pass blocks of layer_parallel"}});
  for_each_layer(*module, &expect_no_exchange);
  const bool divides = size_along(mesh.shape(), "tensor") > 1 && !any_split_layers(mesh, has_split_layers(*module));
  TW_EXPECTS(!divides || initial == nullptr, "the mesh is ", mesh.shape().describe(),
             ", but operators are divided by experiments, for which the module needs memory: pass the module itself");
  const ModelTensors of_module = model_tensors(*module);
  const bool has_samples_apart = size_along(mesh.shape(), "data") * size_along(mesh.shape(), "shard") > 1;
  if (has_samples_apart) of_module.expect_replicable();  // names parameters of the whole module
  const std::vector<NamedTensor> tensors = of_module.all_tensors();
  if (initial == nullptr) on_all_ranks(mesh.comm(), "dividing a module", [&] { expect_values(tensors); });
  std::vector<std::string> along{"data", "shard", "stage"};
  if (divides) along.emplace_back("tensor");
  const RanksAlong same_values(mesh, along);
  if (same_values.comm() != nullptr) synchronize(*same_values.comm(), with_memory(tensors));
  if (divides) {
    const std::optional<Mesh> longer = with_stage(mesh);
    const Mesh& staged = longer ? *longer : mesh;
    const DividedOperators divided = divide_operators(staged, *module, forward, example, options);
    return planned_stages(staged, module, forward, &divided, example, options, initial);
  }
  return size_along(mesh.shape(), "stage") > 1 ? planned_stages(mesh, module, forward, nullptr, example, options, initial)
                                               : whole_module(mesh, module, forward, example, options, initial);
}

}  // namespace

ParallelModel parallelize(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward, const Tensors& example,
                          const ParallelOptions& options) {
  expect_options(mesh, options);
  return parallelize_module(mesh, module, forward, example, options, nullptr);
}

ParallelModel detail::parallelize_made(const Mesh& mesh, const std::function<MadeModule()>& make, const Tensors& example,
                                       const ParallelOptions& options) {
  expect_options(mesh, options);
  const auto initial = std::make_shared<InitialValues>(options.seed);
  const MadeModule made = on_all_ranks(mesh.comm(), "making the model", [&] { return initial->record(make); });
  return parallelize_module(mesh, made.module, made.forward, example, options, initial);
}

ParallelModel parallelize(const Mesh& mesh, const std::vector<pipeline::BlockFactory>& blocks, const Tensors& example,
                          const ParallelOptions& options) {
  expect_options(mesh, options);
  expect_axes(mesh.shape(), {{"layer", "these blocks do not run in parallel along `layer`: pass blocks of layer_parallel"}});
  if (size_along(mesh.shape(), "stage") == 1) return one_module(mesh, blocks, example, options);
  const auto calls = std::make_shared<Calls>(mesh, options.replicas);
  auto made = std::make_shared<pipeline::Pipeline>(calls->mesh()["stage"], blocks, stage_options(calls->mesh(), options));
  on_all_ranks(mesh.comm(), "making the stages", [&] { made->for_each_layer(&expect_no_exchange); });
  expect_split_layers(mesh, has_split_layers(*made));
  return make_parallel_model(
      mesh, calls, pipeline_program({.pipeline = made, .model = with_split_layers(made, made), .example = example, .reads = reads_outputs(mesh)}),
      options);
}

ParallelModel parallelize(const Mesh& mesh, const std::vector<layer_parallel::Block>& blocks, const Tensors& example,
                          const layer_parallel::LayerParallelOptions& layers, const ParallelOptions& options) {
  expect_options(mesh, options);
  expect_axes(mesh.shape(), {});
  const auto calls = std::make_shared<Calls>(mesh, options.replicas);
  return make_parallel_model(mesh, calls, layer_program(calls->mesh(), blocks, example, layers, options), options);
}

}  // namespace tw
