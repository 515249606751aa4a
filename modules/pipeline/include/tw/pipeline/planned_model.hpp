// SPDX-License-Identifier: Apache-2.0
// Plans a pipeline for an existing module: captures it, measures it and plans the stages.
#pragma once
#include <torch/nn/module.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
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
  std::optional<int64_t> batch = {};                              ///< rows of a step; unset: those of the example
  std::optional<int> micro_batches = {};
  std::optional<ScheduleKind> schedule = {};
  std::optional<int> max_stages = {};
  std::optional<int> stages = {};  ///< see PlanOptions
  ParameterMemory parameters = {};
  /// Link between devices. The default describes shared memory within a node.
  Link link = {.latency_s = 5e-6, .bytes_per_second = 4e9};
  std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};  ///< allowed
  std::vector<std::vector<std::string>> together = {};                                          ///< see PlanOptions
  int max_blocks = PlanOptions().max_blocks;
  double gap = PlanOptions().gap;
  int best_plans = PlanOptions().best_plans;
  std::filesystem::path plan = {};           ///< file of a plan that replaces the best one; empty: none
  std::filesystem::path profile_cache = {};  ///< see MeasureOptions::cache
};
/// Visits the options that the configuration of a training sets.
void visit(ModelPlanOptions& options, OptionVisitor& visitor);

/// The division of a module into stages, which a Pipeline runs. A value, except that copies share constants of the graphs.
class ModelPlan {
 public:
  ModelPlan(graph::Graph training, graph::Graph evaluation, PlanResult result);

  /// Explains the choice of this plan; see tw::pipeline::explain().
  std::string explain() const;
  const PlanResult& result() const noexcept { return result_; }
  const Plan& best() const { return result_.best(); }
  /// Replaces the best plan, such as by an edited one. @throws ContractError with the first of problems_of()
  void use(Plan plan);

  /// Options for a Pipeline.
  PipelineOptions options(uint64_t seed = 0) const;
  /// Stage `index` of `module`; shares its tensors.
  StageModel stage(const torch::nn::Module& module, int index) const;

 private:
  graph::Graph training_;
  graph::Graph evaluation_;
  PlanResult result_;
};

/// Captures `module`, once in training and once in evaluation mode, measures its operators, and plans. Local. If the module lies on an accelerator,
/// it must be this thread's current one; the example must lie there too, and the plan is for such devices.
/// Parameters may have no memory (LibTorch's meta device): other numbers are measured in their place.
/// @param forward calls the module; inputs and outputs have rows. @param example the inputs of a batch
/// @throws Error as graph::capture() and plan(const Profile&, ...)
ModelPlan plan(torch::nn::Module& module, const graph::Forward& forward, const std::vector<at::Tensor>& example, const ModelPlanOptions& options);

/// The same plan on every rank: the ranks divide the measurements, and rank 0 plans. Collective. @param module, example of equal shapes everywhere
/// @throws Error on every rank if any rank fails
ModelPlan plan_together(const Communicator& comm, torch::nn::Module& module, const graph::Forward& forward, const std::vector<at::Tensor>& example,
                        const ModelPlanOptions& options);

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
