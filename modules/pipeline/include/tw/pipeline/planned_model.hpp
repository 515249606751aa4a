// SPDX-License-Identifier: Apache-2.0
// Plans a pipeline for an existing module: captures it, measures it and plans the stages.
#pragma once
#include <torch/nn/module.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/forward.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/options.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <tw/planning/planner.hpp>
#include <vector>

namespace tw::pipeline {

struct ModelPlanOptions {
  int devices = 1;
  double memory_bytes = std::numeric_limits<double>::infinity();  ///< memory of each device
  std::optional<int64_t> batch = {};                              ///< rows per step, over all devices; unset: rows of the example
  std::optional<int> micro_batches = {};                          ///< see PlanOptions for this and the next three options
  std::optional<ScheduleKind> schedule = {};
  std::optional<int> max_stages = {};
  std::optional<int> stages = {};
  ParameterMemory parameters = {};  ///< `sharded_optimizer` must be false
  /// Link between devices, for stages and for replicas. The default describes shared memory within a node.
  Link link = {.latency_s = 5e-6, .bytes_per_second = 4e9};
  std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};  ///< allowed in stages
  std::vector<std::vector<std::string>> together = {};                                          ///< see PlanOptions
  int max_blocks = PlanOptions().max_blocks;
  double gap = PlanOptions().gap;
  int best_plans = PlanOptions().best_plans;
  std::filesystem::path plan = {};           ///< file of a plan to pass to ModelPlan::use(); empty: none
  std::filesystem::path profile_cache = {};  ///< see MeasureOptions::cache
};
/// Visits the options that a training configuration can set.
void visit(ModelPlanOptions& options, OptionVisitor& visitor);

/// The division of a module into the stages of a Pipeline. A value type, except that copies share the tensors of the captured graphs' constants.
class ModelPlan {
 public:
  ModelPlan(graph::Graph training, graph::Graph evaluation, PlanResult result);

  /// Explains why best() was chosen; see tw::pipeline::explain().
  std::string explain() const;
  const PlanResult& result() const noexcept { return result_; }
  const Plan& best() const { return result_.best(); }
  /// Makes `plan`, for example one that you have edited, the best plan: puts it, with its predicted figures, at the front of result().plans. The
  /// planner's best plan stays there as the second; a plan of an earlier call does not. @throws ContractError with the first problem if
  /// problems_of(plan, ...) finds any
  void use(Plan plan);

  /// Replaces objects that stages use, such as the ranks with which their operators communicate; see graph::replace_objects(). Call it before
  /// stages().
  void replace_objects(const std::function<c10::IValue(const graph::Object&)>& replacement);

  /// Options for a Pipeline that runs the best plan.
  PipelineOptions options(uint64_t seed = 0) const;
  /// Returns the stages on a device of the best plan's schedule. They share their tensors with `module`.
  StageModel stages(const torch::nn::Module& module, int device) const;

 private:
  graph::Graph training_;
  graph::Graph evaluation_;
  PlanResult result_;
};

/// Captures `module`, once in training and once in evaluation mode, measures its operators, and plans. Local: split layers do not communicate
/// meanwhile, and their communication is not measured. If the module's tensors lie on an
/// accelerator, it must be the current accelerator of this thread; the example must lie there, too, and the plan is for accelerators of that kind.
/// Parameters and buffers may have no memory (LibTorch's meta device). In measurements, small random numbers replace them, or zeros if they are not
/// floating-point.
/// @param forward calls the module. The rows of its inputs and outputs, in the first dimension, are the samples of a batch. @param example the inputs
/// of a batch
/// @throws Error as graph::capture() and plan(const Profile&, ...) do
ModelPlan plan(torch::nn::Module& module, const graph::Forward& forward, const std::vector<at::Tensor>& example, const ModelPlanOptions& options);

/// Makes one plan for all ranks: the ranks share the work of measuring, and rank 0 computes the plan. The other ranks get only the best plan.
/// Collective.
/// @param comm if `module` contains split layers (SlicedModule), it must have all ranks that hold their slices, such as the communicator of a mesh
/// `stage` x `tensor`. Then all of these ranks cut the module alike, and measure its communication
/// @param module, example with the same shapes on all ranks, except that slices of split layers may have different sizes
/// @throws Error on every rank if any rank fails; if the module contains split layers, their communicator may be revoked then
ModelPlan plan_together(const Communicator& comm, torch::nn::Module& module, const graph::Forward& forward, const std::vector<at::Tensor>& example,
                        const ModelPlanOptions& options);

/// plan_together() for a module that has been captured.
/// @param module has the tensors of `captured`, under the names there @param captured as graph::capture_modes() returns it
ModelPlan plan_together(const Communicator& comm, const torch::nn::Module& module, graph::ModeGraphs captured, const std::vector<at::Tensor>& example,
                        const ModelPlanOptions& options);

/// plan() and plan_together() for a module whose forward() takes one tensor.
/// ```
/// auto planned = pipeline::plan(*model, example, {.devices = 4, .memory_bytes = 16e9, .micro_batches = 8});
/// std::cout << planned.explain();
/// ```
template <class Module>
ModelPlan plan(Module& module, const at::Tensor& example, const ModelPlanOptions& options) {
  return plan(module, graph::forward_of(module), {example}, options);
}
template <class Module>
ModelPlan plan_together(const Communicator& comm, Module& module, const at::Tensor& example, const ModelPlanOptions& options) {
  return plan_together(comm, module, graph::forward_of(module), {example}, options);
}

}  // namespace tw::pipeline
