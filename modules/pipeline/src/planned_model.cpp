// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/planned_model.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/gradients/sparse_gradients.hpp>
#include <tw/graph/cuts.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/graph/place_in_module.hpp>
#include <tw/pipeline/measured_profile.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/stage_ranks.hpp>
#include <tw/tensor/memory_order.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

#include "in_turn.hpp"
#include "sliced_module.hpp"
#include "stand_ins.hpp"

namespace tw::pipeline {
namespace {

using graph::Graph;
using graph::Piece;

using Bind = std::function<at::Tensor(const std::string& name)>;

Bind by_name(std::map<std::string, at::Tensor> tensors) {
  return [all = std::make_shared<const std::map<std::string, at::Tensor>>(std::move(tensors))](const std::string& name) {
    const auto found = all->find(name);
    TW_EXPECTS(found != all->end(), "the module has no tensor '", name, "': the plan is for another module");
    return found->second;
  };
}

/// A module's tensors by name; shared tensors under each of their names.
Bind tensors_of(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> all;
  for (const auto& each : module.named_parameters()) all[each.key()] = each.value();
  for (const auto& each : module.named_buffers()) all[each.key()] = each.value();
  return by_name(std::move(all));
}

/// The segments of all stages, in order. A stage without selective recomputation has one segment.
struct Segments {
  std::vector<int> of_unit;   // units without batch data have no entry
  std::vector<int> of_stage;  // first segment of each stage, then the total number of segments

  Segments(const Plan& plan, size_t units) : of_unit(units, -1) {
    int next = 0;
    for (const StagePlan& stage : plan.stages) {
      of_stage.push_back(next++);
      for (const int unit : stage.operators) {
        of_unit.at(at(unit)) = unit != stage.operators.front() && stage.begins_segment(unit) ? next++ : next - 1;
      }
    }
    of_stage.push_back(next);
  }
};

/// Assigns the units of the evaluation graph, which has different operators on the same tensors, to stages. Each unit goes to the first stage that
/// has its tensors and is not before the stages of its inputs.
/// @param tensors names of the tensors of each stage
std::vector<int> stage_of_units(const Graph& graph, const std::vector<Piece>& units, const std::vector<std::set<std::string>>& tensors) {
  std::vector<int> stage_of_value(graph.values.size(), 0);
  std::vector<int> stage_of;
  for (const Piece& unit : units) {
    int first = 0;
    for (const int input : unit.inputs) first = std::max(first, stage_of_value[at(input)]);
    const auto has_all = [&](int stage) {
      return std::ranges::all_of(unit.tensors, [&](int each) { return tensors[at(stage)].contains(graph.values[at(each)].name); });
    };
    int stage = first;
    while (stage < static_cast<int>(tensors.size()) && !has_all(stage)) ++stage;
    if (stage == static_cast<int>(tensors.size())) stage = first;  // it uses tensors that training does not use, or tensors of several stages
    for (const int output : unit.outputs) stage_of_value[at(output)] = stage;
    stage_of.push_back(stage);
  }
  return stage_of;
}

Cluster cluster_of(const ModelPlanOptions& options) {
  return {.devices = options.devices,
          .memory_bytes = options.memory_bytes,
          .between_stages = options.link,
          .within_stage = options.link,
          .overlapped_all_reduce = false};
}

PlanOptions plan_options_of(const ModelPlanOptions& options, const std::vector<at::Tensor>& example) {
  PlanOptions made;
  made.batch = options.batch.value_or(example.at(0).size(0));
  made.micro_batches = options.micro_batches;
  made.schedule = options.schedule;
  made.max_stages = options.max_stages;
  made.stages = options.stages;
  made.parameters = options.parameters;
  made.recompute = options.recompute;
  made.together = options.together;
  made.max_blocks = options.max_blocks;
  made.gap = options.gap;
  made.best_plans = options.best_plans;
  return made;
}

std::set<std::string> names_of(const Graph& graph, const Piece& piece) {
  std::set<std::string> names;
  for (const int tensor : piece.tensors) names.insert(graph.values[at(tensor)].name);
  return names;
}

/// Parameters and buffers that share memory with those in `names` that passes change.
std::set<std::string> changed_with(const Graph& graph, const std::set<std::string>& names) {
  std::set<int64_t> changed;
  for (const graph::Node& node : graph.nodes) {
    for (const int value : node.changes) changed.insert(graph.values[at(value)].storage);
  }
  std::set<int64_t> shown;
  for (const graph::Value& value : graph.values) {
    if (names.contains(value.name) && changed.contains(value.storage)) shown.insert(value.storage);
  }
  std::set<std::string> found;
  for (const graph::Value& value : graph.values) {
    if (!value.name.empty() && shown.contains(value.storage)) found.insert(value.name);
  }
  return found;
}

/// What the stages compute in either mode.
struct Stages {
  std::vector<std::vector<Piece>> training;  // by stage and segment
  std::vector<Piece> evaluation;
  std::vector<std::set<std::string>> tensors;  // by stage, for both modes

  Stages(const Graph& training_graph, const Graph& evaluation_graph, const Plan& plan) {
    const auto units = units_of(training_graph);
    const Segments segments(plan, units.size());
    const std::vector<Piece> pieces = stages_of(training_graph, units, segments.of_unit);
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      training.emplace_back(pieces.begin() + segments.of_stage[s], pieces.begin() + segments.of_stage[s + 1]);
      tensors.emplace_back();
      for (const Piece& segment : training.back()) tensors.back().merge(names_of(training_graph, segment));
    }
    const auto others = units_of(evaluation_graph);
    const std::vector<int> stage_of = stage_of_units(evaluation_graph, pieces_of(evaluation_graph, others), tensors);
    evaluation = stages_of(evaluation_graph, others, stage_of, static_cast<int>(training.size()));
    for (size_t s = 0; s < tensors.size(); ++s) tensors[s].merge(names_of(evaluation_graph, evaluation[s]));
    for (const Graph& graph : {std::cref(training_graph), std::cref(evaluation_graph)}) {
      for (std::set<std::string>& of_stage : tensors) of_stage.merge(changed_with(graph, of_stage));
    }
  }
};

/// Runs a piece. Values between pieces have their rows in the first dimension, along which replicas divide them. Inputs and outputs of the whole
/// graph have the module's layout.
class PieceRunner {
 public:
  /// @param is_last its outputs are outputs of the graph
  PieceRunner(const Graph& graph, const Piece& piece, bool is_last, const Bind& bind)
      : interpreter_(graph, piece.nodes, piece.inputs, piece.outputs, bind) {
    for (const int input : piece.inputs) {
      rows_of_inputs_.push_back(std::max(graph.values[at(input)].row_dimension(), 0));
      orders_.push_back(graph.values[at(input)].order);
    }
    for (const int output : piece.outputs) rows_of_outputs_.push_back(is_last ? 0 : std::max(graph.values[at(output)].row_dimension(), 0));
  }
  std::vector<at::Tensor> run(std::vector<at::Tensor> values, const graph::PassRows& rows) const {
    for (size_t i = 0; i < rows_of_inputs_.size(); ++i) {
      if (rows_of_inputs_[i] != 0) values[i] = values[i].movedim(0, rows_of_inputs_[i]);
      values[i] = in_order(values[i], orders_[i]);  // replicas that send one row each do not know the memory order
    }
    values = interpreter_.run(values, rows);
    for (size_t i = 0; i < rows_of_outputs_.size(); ++i) {
      if (rows_of_outputs_[i] != 0) values[i] = values[i].movedim(rows_of_outputs_[i], 0);
    }
    return values;
  }

 private:
  graph::Interpreter interpreter_;
  std::vector<int> rows_of_inputs_;  // by value, the dimension of the rows
  std::vector<int> rows_of_outputs_;
  std::vector<std::vector<int64_t>> orders_;  // memory order of the inputs
};

}  // namespace

ModelPlan::ModelPlan(Graph training, Graph evaluation, PlanResult result)
    : training_(std::move(training)), evaluation_(std::move(evaluation)), result_(std::move(result)) {}

std::string ModelPlan::explain() const { return pipeline::explain(result_); }

void ModelPlan::use(Plan plan) {
  const std::vector<std::string> problems = problems_of(plan, result_.profile, result_.cluster.devices);
  TW_EXPECTS(problems.empty(), problems.front());
  plan = predicted(std::move(plan), result_.profile, result_.cluster, result_.options.parameters);
  if (result_.best_is_given) {
    result_.plans.front() = std::move(plan);
  } else {
    result_.plans.insert(result_.plans.begin(), std::move(plan));
    result_.best_is_given = true;
  }
}

void ModelPlan::replace_objects(const std::function<c10::IValue(const graph::Object&)>& replacement) {
  graph::replace_objects(training_, replacement);
  graph::replace_objects(evaluation_, replacement);
}

namespace {

/// By device of the schedule, the number of replicas of its stages.
std::vector<int> replicas_of_devices(const Plan& plan) {
  const std::vector<int> device_of = device_of_stages(plan);
  std::vector<int> replicas(at(std::ranges::max(device_of)) + 1);
  for (size_t stage = 0; stage < device_of.size(); ++stage) replicas[at(device_of[stage])] = plan.stages[stage].replicas;
  return replicas;
}

}  // namespace

PipelineOptions ModelPlan::options(uint64_t seed) const {
  PipelineOptions made{.schedule = schedule_of(best()), .replicas = replicas_of_devices(best()), .seed = seed};
  for (const StagePlan& stage : best().stages) made.recompute.push_back(stage.recompute);
  return made;
}

StageModel ModelPlan::stages(const torch::nn::Module& module, int device) const {
  const std::vector<int> device_of = device_of_stages(best());
  TW_EXPECTS(std::ranges::count(device_of, device) > 0, "no stage is on device ", device, ": the number of devices is ",
             std::ranges::max(device_of) + 1);
  const Bind bind = tensors_of(module);
  const Stages stages(training_, evaluation_, best());
  const auto is_here = [&](size_t stage) { return device_of[stage] == device; };
  const auto users_of = [&](const std::string& name) {
    std::set<int> devices;
    for (size_t stage = 0; stage < device_of.size(); ++stage) {
      if (stages.tensors[stage].contains(name)) devices.insert(device_of[stage]);
    }
    return devices;
  };
  StageModel made{.module = stage_module_at("", module), .stages = {}};
  // Registers tensors under all their names in the module. Those that neither graph uses go to the last stage, where the loss may use them.
  const auto add = [&](const auto& tensors, const auto& register_one) {
    std::map<const c10::TensorImpl*, std::string> first_names;
    for (const auto& each : tensors) {
      const std::string& first = first_names.emplace(each.value().unsafeGetTensorImpl(), each.key()).first->second;
      const std::set<int> users = users_of(first);
      if (users.empty() ? !is_here(device_of.size() - 1) : !users.contains(device)) continue;
      const auto [owner, name] =
          graph::place_in_module(*made.module, each.key(), [&](const std::string& path) { return stage_module_at(path, module); });
      register_one(owner, name, each.value());
      if (users.size() > 1) made.tied[each.key()] = first;
    }
  };
  add(module.named_parameters(), [](torch::nn::Module& owner, const std::string& name, const at::Tensor& tensor) {
    owner.register_parameter(name, tensor, tensor.requires_grad());
    if (auto* slices = dynamic_cast<SlicesOfStage*>(&owner)) slices->note(name);
  });
  add(module.named_buffers(),
      [](torch::nn::Module& owner, const std::string& name, const at::Tensor& tensor) { owner.register_buffer(name, tensor); });
  std::erase_if(made.tied, [&](const auto& tie) { return module.named_buffers().contains(tie.first); });
  for (const std::string& each : sparse_gradients_of(module)) {
    if (made.module->named_parameters().contains(each)) made.sparse.push_back(each);
  }
  const auto runner = [&](const Graph& graph, const Piece& piece, bool gives_outputs) {
    return std::make_shared<PieceRunner>(graph, piece, gives_outputs, bind);
  };
  for (size_t stage = 0; stage < device_of.size(); ++stage) {
    if (!is_here(stage)) continue;
    const bool is_last = stage + 1 == device_of.size();
    Stage& computes = made.stages.emplace_back();
    // In evaluation, the first segment computes everything, and the others pass values on.
    const auto evaluation = runner(evaluation_, stages.evaluation[stage], is_last);
    const std::vector<Piece>& segments = stages.training[stage];
    for (const Piece& segment : segments) {
      computes.segments.emplace_back([training = runner(training_, segment, is_last && &segment == &segments.back()),
                                      evaluation = computes.segments.empty() ? evaluation : nullptr,
                                      mode = made.module.get()](const std::vector<at::Tensor>& inputs, const graph::PassRows& rows) {
        if (mode->is_training()) return training->run(inputs, rows);
        return evaluation ? evaluation->run(inputs, rows) : inputs;
      });
    }
    computes.forward = in_turn(computes.segments);
  }
  made.has_one_mode = true;
  made.has_separate_state = true;  // units keep changed tensors together, see cuts.hpp
  made.has_halves = true;
  return made;
}

namespace {

StageModel stages_of_rank(const Communicator& comm, const torch::nn::Module& module, const ModelPlan& plan) {
  TW_EXPECTS(plan.best().devices() == comm.size(), "the plan is for ", plan.best().devices(), " devices, but there are ", comm.size(), " ranks");
  return plan.stages(module, StageRanks(replicas_of_devices(plan.best())).device_of(comm.rank()));
}

}  // namespace

Pipeline::Pipeline(const Communicator& comm, const torch::nn::Module& module, const ModelPlan& plan, uint64_t seed)
    : Pipeline(comm, on_all_ranks(comm, "making the stages of a planned model", [&] { return stages_of_rank(comm, module, plan); }),
               plan.options(seed)) {}

namespace {

PlanResult planned(const Profile& profile, const std::vector<at::Tensor>& example, const ModelPlanOptions& options) {
  TW_EXPECTS(!options.parameters.sharded_optimizer,
             "ModelPlanOptions::parameters: sharded_optimizer must be false, because each replica of a planned module has the whole optimizer state");
  return plan(profile, cluster_of(options), plan_options_of(options, example));
}

/// Replaces the best plan by that of `options.plan`, if there is one.
ModelPlan with_plan_of_file(ModelPlan model, const ModelPlanOptions& options) {
  if (!options.plan.empty()) model.use(plan_from_json(read_file(options.plan), model.result().profile, options.devices));
  return model;
}

}  // namespace

void visit(ModelPlanOptions& options, OptionVisitor& visitor) {
  int micro_batches = options.micro_batches.value_or(0);
  std::string schedule = options.schedule ? name_of(*options.schedule) : "best";
  visitor.field("micro_batches", micro_batches, at_least(0), {.meaning = "micro-batches of a batch; 0: the planner's choice"});
  std::vector<std::string> choices{"best"};
  for (const auto& [name, kind] : schedule_names()) choices.push_back(name);
  visitor.field("schedule", schedule, choices, {.meaning = "order in which a stage runs its micro-batches; best: the planner's choice of all"});
  visitor.field("plan", options.plan, {.meaning = "file of a plan, as `torchweave plan pipeline --output` writes it; empty: the planner's choice"});
  visitor.field("profile_cache", options.profile_cache, {.meaning = "folder that keeps measured profiles for later runs; empty: none"});
  options.micro_batches = micro_batches > 0 ? std::optional(micro_batches) : std::nullopt;
  options.schedule.reset();
  for (const auto& [name, kind] : schedule_names()) {
    if (name == schedule) options.schedule = kind;
  }
}

ModelPlan plan(torch::nn::Module& module, const graph::Forward& forward, const std::vector<at::Tensor>& example, const ModelPlanOptions& options) {
  graph::ModeGraphs captured = graph::capture_modes(module, forward, example);
  const RestoreOnExit kept(module.buffers());
  const Profile profile = measured_profile(captured.training, by_name(measurable_tensors(module)), example, {.cache = options.profile_cache});
  PlanResult result = planned(profile, example, options);
  return with_plan_of_file({std::move(captured.training), std::move(captured.evaluation), std::move(result)}, options);
}

ModelPlan plan_together(const Communicator& comm, torch::nn::Module& module, const graph::Forward& forward, const std::vector<at::Tensor>& example,
                        const ModelPlanOptions& options) {
  graph::ModeGraphs captured = on_all_ranks(comm, "capturing the module", [&] { return graph::capture_modes(module, forward, example); });
  return plan_together(comm, module, std::move(captured), example, options);
}

ModelPlan plan_together(const Communicator& comm, const torch::nn::Module& module, graph::ModeGraphs captured, const std::vector<at::Tensor>& example,
                        const ModelPlanOptions& options) {
  const Communicator* const slices = on_all_ranks(comm, "planning the module", [&] { return slice_holders(module); });
  std::vector<std::string> lines = value_lines(cluster_of(options));
  for (std::string& line : value_lines(plan_options_of(options, example))) lines.push_back(std::move(line));
  for (const std::vector<std::string>& names : options.together) {
    lines.emplace_back("together");
    for (const std::string& name : names) lines.back() += ' ' + name;
  }
  expect_same_on_all_ranks(comm, "the options of a plan", lines);
  expect_same_operators(comm, slices, captured);
  const RestoreOnExit kept(module.buffers());
  const Profile profile =
      measured_profile(comm, captured.training, by_name(measurable_tensors(module)), example, {.cache = options.profile_cache, .slices = slices});
  PlanResult result = on_all_ranks(comm, "planning the module", [&] { return comm.rank() == 0 ? planned(profile, example, options) : PlanResult(); });
  const std::string text = broadcast_string(comm, comm.rank() == 0 ? to_json(result.best(), profile) : "", Rank(0));
  // All ranks, also rank 0, compute the figures of the same text: the schedule follows from them, to the last bit.
  Plan best = predicted(plan_from_json(text, profile, options.devices), profile, cluster_of(options), options.parameters);
  if (comm.rank() == 0) {
    result.plans.front() = std::move(best);
  } else {
    result = {.plans = {std::move(best)}, .cluster = cluster_of(options), .options = plan_options_of(options, example), .profile = profile};
  }
  return on_all_ranks(comm, "reading the plan " + options.plan.string(),
                      [&] { return with_plan_of_file({std::move(captured.training), std::move(captured.evaluation), std::move(result)}, options); });
}

}  // namespace tw::pipeline
