// SPDX-License-Identifier: Apache-2.0
// Trains a randomly cut module on all ranks, and in one process.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/random.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/cuts.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <vector>

namespace tw::pipeline {

/// A model to train, and its data.
struct Trainee {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  graph::Forward forward;
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> targets;  ///< one for each output
  bool draws = false;                  ///< draws random numbers: the reference is a pipeline of one rank
  bool splits_matter = false;          ///< results depend on the micro-batches, as running statistics do
  std::string refusal = {};            ///< expected text of the error with which capture refuses it; empty: must be captured
};

class CutTrial {
 public:
  /// @param make returns the same trainee each time. @param seed of the cuts, the same on all ranks. @param replicas whether stages may have replicas
  CutTrial(const Communicator& comm, std::function<Trainee()> make, uint64_t seed, int steps = 2, bool replicas = true)
      : comm_(comm),
        make_(std::move(make)),
        numbers_(seed, 2),
        steps_(steps),
        replicas_(replicas),
        micro_batches_(1 + static_cast<int>(numbers_.below(3))),
        habits_{numbers_.below(4), numbers_.below(2) == 0, numbers_.below(2) == 0} {}

  /// Description of the trial; valid after run().
  const std::string& what() const { return what_; }

  /// Whether capture refused the module as expected; valid after run().
  bool is_refused() const { return refused_; }

  /// Collective. @return differences from one process, as this rank sees them; empty: none
  std::string run() {
    const Trainee mine = make_();
    what_ = mine.name;
    rows_ = mine.inputs[0].size(0);
    std::optional<graph::ModeGraphs> graphs;
    std::string refusal;
    try {
      graphs = graph::capture_modes(*mine.module, mine.forward, mine.inputs);
    } catch (const Error& error) {
      refusal = error.what();
      refused_ = true;
    }
    if (!mine.refusal.empty() && refusal.find(mine.refusal) != std::string::npos) return "";
    if (!mine.refusal.empty()) return concat("refused: '", refusal, "', expected: ", mine.refusal);
    if (!refusal.empty()) return refusal;
    const auto& [training, evaluation] = *graphs;
    make_passes_of(std::max(training.min_rows, evaluation.min_rows));
    const size_t units = units_of(training).size();
    const Plan plan = random_plan(units, mine.splits_matter);
    what_ += concat(", ", rows_, " rows, ", to_text(plan));
    const bool takes_part = comm_.rank() < plan.devices();  // there may be fewer units than ranks
    const Communicator part = comm_.split(takes_part ? 1 : 0, comm_.rank());
    const Communicator self = comm_.split(comm_.rank(), 0);
    if (!takes_part) return "";
    const Outcome found = trained(mine, ModelPlan(training, evaluation, {.plans = {plan}}), part);

    const Trainee theirs = make_();
    Outcome expected;
    if (mine.draws) {
      Plan alone = plan_of(units, {static_cast<int>(units)}, {1});
      if (!mine.splits_matter) alone.micro_batches = 1;
      expected = trained(theirs, ModelPlan(training, evaluation, {.plans = {alone}}), self);
    } else {
      expected = trained(theirs);
    }
    theirs.module->eval();
    const torch::NoGradGuard no_gradients;
    expected.outputs = theirs.forward(theirs.inputs);
    return difference(found, expected);
  }

 private:
  using Tensor = torch::Tensor;
  using Tensors = std::vector<Tensor>;
  static constexpr double rate = 0.05;

  static std::string to_text(const Plan& plan) {
    std::string text = concat(plan.micro_batches, " micro-batches, ", name_of(plan.schedule), ", units x replicas");
    for (const StagePlan& stage : plan.stages) text += concat(' ', stage.operators.size(), 'x', stage.replicas, ' ', name_of(stage.recompute));
    return text;
  }

  /// For modules that call other operators for a single row.
  void make_passes_of(int64_t min_rows) {
    if (min_rows < 2) return;
    replicas_ = false;
    while (micro_batches_ > 1 && rows_ / micro_batches_ < min_rows) --micro_batches_;
    what_ += concat(", at least ", min_rows, " rows in a pass");
  }

  Plan plan_of(size_t units, const std::vector<int>& ends, const std::vector<int>& replicas) {
    Plan plan{.batch = rows_, .micro_batches = micro_batches_, .schedule = ScheduleKind::gpipe, .stages = {}};
    int unit = 0;
    for (size_t s = 0; s < ends.size(); ++s) {
      StagePlan stage;
      stage.replicas = replicas[s];
      for (; unit < ends[s]; ++unit) stage.operators.push_back(unit);
      plan.stages.push_back(stage);
    }
    TW_EXPECTS(static_cast<size_t>(unit) == units, "a plan has all units");
    return plan;
  }

  Plan random_plan(size_t units, bool splits_matter) {
    // Ranks of each device. Running statistics of replicas are averaged, unlike in one process; pipeline_equivalence_test covers them.
    std::vector<int> replicas;
    for (int left = comm_.size(); left > 0 && replicas.size() < units; left -= replicas.back()) {
      replicas.push_back(splits_matter || !replicas_ ? 1 : 1 + static_cast<int>(numbers_.below(static_cast<uint32_t>(left))));
    }
    auto schedule = static_cast<ScheduleKind>(numbers_.below(5));
    if (units < replicas.size() * static_cast<size_t>(stages_per_device(schedule))) schedule = ScheduleKind::one_forward_one_backward;
    std::vector<int> replicas_of_stages;
    for (const int device : make_schedule(schedule, static_cast<int>(replicas.size()), micro_batches_).device_of_stages())
      replicas_of_stages.push_back(replicas[static_cast<size_t>(device)]);
    std::set<int> ends{static_cast<int>(units)};
    while (ends.size() < replicas_of_stages.size()) ends.insert(1 + static_cast<int>(numbers_.below(static_cast<uint32_t>(units))));
    Plan plan = plan_of(units, {ends.begin(), ends.end()}, replicas_of_stages);
    plan.schedule = schedule;
    for (StagePlan& stage : plan.stages) {
      stage.recompute = static_cast<Recompute>(numbers_.below(3));
      for (const int unit : stage.operators) {
        if (unit == stage.operators.front() || numbers_.below(2) == 0) stage.segments.push_back(unit);
      }
    }
    return plan;
  }

  struct Outcome {
    double loss = 0;  // loss of the last step
    Tensors outputs;  // outputs in evaluation, afterwards
    std::map<std::string, Tensor> tensors;
  };

  static Outcome outcome_of(const torch::nn::Module& module, double loss) {
    Outcome outcome{loss, {}, {}};
    for (const auto& each : module.named_parameters()) outcome.tensors[each.key()] = each.value().detach();
    for (const auto& each : module.named_buffers()) outcome.tensors[each.key()] = each.value();
    return outcome;
  }

  static Tensor loss_of(const Tensors& y, const Tensors& t) {
    Tensor sum = torch::mse_loss(y[0], t[0]);
    for (size_t i = 1; i < t.size(); ++i) sum = sum + torch::mse_loss(y[i], t[i]);
    return sum;
  }

  /// An optimizer of each parameter once, whatever its names. Small denominators would amplify rounding errors, so epsilon is large.
  std::unique_ptr<torch::optim::Optimizer> optimizer_of(const torch::nn::Module& module) const {
    Tensors parameters;
    for (const Tensor& each : module.parameters()) {
      if (std::ranges::none_of(parameters, [&](const Tensor& known) { return known.is_same(each); })) parameters.push_back(each);
    }
    if (parameters.empty()) return nullptr;
    switch (habits_.optimizer) {
      case 0: return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate).momentum(0.9).weight_decay(0.1));
      case 1: return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(rate).eps(1e-2).weight_decay(0.1));
      case 2: return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(rate).eps(1e-2).weight_decay(0.1));
      default: return std::make_unique<torch::optim::SGD>(parameters, rate);
    }
  }

  /// Makes optimizer steps. @param pass adds to the gradients and returns the loss. @param evaluate runs the model between steps. @return the last
  /// loss
  double steps_of(torch::nn::Module& module, const std::function<double()>& pass, const std::function<void()>& evaluate) const {
    const auto optimizer = optimizer_of(module);
    double loss = 0;
    for (int i = 0; i < steps_; ++i) {
      if (optimizer) optimizer->zero_grad(habits_.sets_to_none);
      loss = pass();
      if (optimizer) optimizer->step();
      if (habits_.evaluates) evaluate();
    }
    return loss;
  }

  /// Trained by a pipeline, whose stages share the module's tensors.
  Outcome trained(const Trainee& trainee, const ModelPlan& planned, const Communicator& comm) const {
    const PipelineOptions options = planned.options(7);
    int device = 0;
    for (int first = options.replicas[0]; first <= comm.rank(); first += options.replicas[static_cast<size_t>(device)]) ++device;
    Pipeline pipeline(comm, planned.stages(*trainee.module, device), options);
    const auto evaluate = [&] {
      pipeline.eval();
      Tensors outputs = pipeline.forward(trainee.inputs);
      pipeline.train();
      return outputs;
    };
    const double loss = steps_of(pipeline, [&] { return pipeline.run(trainee.inputs, trainee.targets, loss_of); }, evaluate);
    Outcome outcome = outcome_of(pipeline, loss);
    outcome.outputs = evaluate();
    return outcome;
  }

  /// Trained by one process, micro-batch by micro-batch.
  Outcome trained(const Trainee& trainee) const {
    const auto pass = [&] {
      double total = 0;
      for (int64_t m = 0, begin = 0; m < micro_batches_; ++m) {
        const int64_t count = rows_ / micro_batches_ + (m < rows_ % micro_batches_ ? 1 : 0);
        const auto part = [&](const Tensors& of) {
          Tensors parts;
          for (const Tensor& each : of) parts.push_back(each.narrow(0, begin, count));
          return parts;
        };
        const Tensor loss = loss_of(trainee.forward(part(trainee.inputs)), part(trainee.targets)) * count / rows_;
        loss.backward();
        total += loss.item<double>();
        begin += count;
      }
      return total;
    };
    const auto evaluate = [&] {
      const torch::NoGradGuard no_gradients;
      trainee.module->eval();
      trainee.forward(trainee.inputs);
      trainee.module->train();
    };
    if (!trainee.module->is_training()) trainee.module->train();
    return outcome_of(*trainee.module, steps_of(*trainee.module, pass, evaluate));
  }

  // Hundreds of sums of a few dozen numbers of size 1 in a different order, 1e-15 each; two steps, and norms over few rows, amplify that.
  static constexpr double tolerance = 1e-10;

  static std::string difference(const Outcome& found, const Outcome& expected) {
    const auto apart = [](const Tensor& one, const Tensor& other) {
      return (one - other).norm().item<double>() / std::max(1.0, other.norm().item<double>());
    };
    std::string text;
    const auto add = [&](const std::string& name, double by) {
      if (!(by <= tolerance)) text += concat(text.empty() ? "" : ", ", name, " by ", by);
    };
    add("loss", std::abs(found.loss - expected.loss));
    for (size_t i = 0; i < expected.outputs.size(); ++i) add(concat("output ", i), apart(found.outputs.at(i), expected.outputs[i]));
    for (const auto& [name, tensor] : found.tensors) add(name, apart(tensor.to(torch::kDouble), expected.tensors.at(name).to(torch::kDouble)));
    return text;
  }

  const Communicator& comm_;
  std::function<Trainee()> make_;
  CounterRng numbers_;
  int steps_;
  bool replicas_;
  int micro_batches_;
  /// Variations of training loops.
  struct Habits {
    uint32_t optimizer;
    bool sets_to_none;  // zero_grad() sets gradients to none instead of zero
    bool evaluates;     // evaluates between steps
  } habits_;
  int64_t rows_ = 0;
  std::string what_;
  bool refused_ = false;
};

}  // namespace tw::pipeline
