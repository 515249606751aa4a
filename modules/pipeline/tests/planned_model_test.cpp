// SPDX-License-Identifier: Apache-2.0
// Modules of many kinds, captured, planned and cut by hand, compared with one process.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

#include "subjects.hpp"

namespace tw::pipeline {
namespace planned_model_test {

using at::Tensor;
using Tensors = std::vector<Tensor>;

using testing::world;
using testing::subjects::chain;
using testing::subjects::gpt;
using testing::subjects::rows;
using testing::subjects::Subject;
using testing::subjects::width;

constexpr int micro_batches = 4;  // of 3, 3, 2 and 2 rows; with 3 replicas: 1, 1 and 1 or none

/// The same on every rank, on the device of this run's tensors.
Subject made(Subject (*subject)()) {
  torch::manual_seed(3);
  Subject made = subject();
  testing::place_module(made.module);
  for (const Tensors& batch : {made.inputs, made.targets}) std::ranges::for_each(batch, testing::place);
  return made;
}

// Backward passes in the reverse order of the forward passes.
Schedule last_in_first_out(int stages) {
  Schedule schedule = gpipe(stages, micro_batches);
  for (std::vector<Action>& device : schedule.devices) std::reverse(device.begin() + micro_batches, device.end());
  return schedule;
}

/// Three steps of SGD, each with `accumulation` batches of the same rows. @return losses, and parameters and buffers by name
struct Outcome {
  std::vector<double> losses;
  std::vector<NamedTensor> tensors;
};

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> all;
  for (const auto& each : module.named_parameters()) all.push_back({each.key(), each.value()});
  for (const auto& each : module.named_buffers()) all.push_back({each.key(), each.value()});
  return all;
}

template <class Step>
Outcome trained(torch::nn::Module& module, const std::vector<Tensor>& parameters, int accumulation, const Step& step) {
  Outcome outcome;
  std::unique_ptr<torch::optim::SGD> sgd;
  if (!parameters.empty()) sgd = std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int i = 0; i < 3; ++i) {
    module.zero_grad();
    for (int k = 0; k < accumulation; ++k) outcome.losses.push_back(step());
    if (sgd) sgd->step();
  }
  outcome.tensors = tensors_of(module);
  return outcome;
}

// One process, whole batch; micro-batch by micro-batch if results depend on the split.
Outcome reference(const Subject& subject, int accumulation) {
  return trained(*subject.module, subject.module->parameters(), accumulation, [&] {
    double total = 0;
    int64_t begin = 0;
    for (int m = 0; m < (subject.splits_matter ? micro_batches : 1); ++m) {
      const int64_t count = subject.splits_matter ? rows / micro_batches + (m < rows % micro_batches ? 1 : 0) : rows;
      Tensors x;
      Tensors t;
      for (const Tensor& each : subject.inputs) x.push_back(each.narrow(0, begin, count));
      for (const Tensor& each : subject.targets) t.push_back(each.narrow(0, begin, count));
      const Tensor loss = subject.loss(subject.forward(x), t) * (static_cast<double>(count) / rows);
      loss.backward();
      total += loss.item<double>();
      begin += count;
    }
    return total;
  });
}

/// The device of a rank.
int device_of(const std::vector<int>& replicas, int rank = world().rank()) {
  int device = 0;
  for (int first = replicas[0]; rank >= first; first += replicas[static_cast<size_t>(device)]) ++device;
  return device;
}

Outcome pipelined(const Communicator& comm, const Subject& subject, const ModelPlan& plan, const PipelineOptions& options, int accumulation) {
  Pipeline pipeline(comm, plan.stages(*subject.module, device_of(options.replicas, comm.rank())), options);
  return trained(pipeline, pipeline.parameters(), accumulation, [&] { return pipeline.run(subject.inputs, subject.targets, subject.loss); });
}

// Sums of hundreds of terms of size 1 in a different order: 1e-14 each; three steps with momentum amplify it by less than 100.
constexpr double tolerance = 1e-12;

void expect_equal(const Outcome& found, const Outcome& expected, const std::string& what) {
  for (size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(found.losses[i], expected.losses[i], tolerance) << what << ", loss " << i;
  for (const NamedTensor& each : found.tensors) {
    const auto same = std::ranges::find(expected.tensors, each.name, &NamedTensor::name);
    ASSERT_NE(same, expected.tensors.end()) << what << ": " << each.name;
    EXPECT_TRUE(each.tensor.allclose(same->tensor, tolerance, tolerance)) << what << ": " << each.name;
  }
}

/// Ranks of each device.
std::vector<std::vector<int>> divisions(int ranks) {
  if (ranks == 1) return {{1}};
  if (ranks == 2) return {{1, 1}, {2}};
  return {{1, 1, 1, 1}, {2, 2}, {1, 3}, {3, 1}, {2, 1, 1}};
}

/// Cuts the units of `plan` as evenly as possible, in segments of two. @return whether there are enough units
bool cut(ModelPlan& plan, const std::vector<int>& replicas, ScheduleKind schedule, Recompute recompute = Recompute::none) {
  const size_t units = plan.result().profile.operators.size();
  const std::vector<int> device_of_stages = make_schedule(schedule, static_cast<int>(replicas.size()), micro_batches).device_of_stages();
  const size_t stages = device_of_stages.size();
  if (units < stages) return false;
  Plan made{.hash = plan.result().profile.hash, .batch = rows, .micro_batches = micro_batches, .schedule = schedule, .stages = {}};
  for (size_t s = 0; s < stages; ++s) {
    StagePlan stage;
    stage.replicas = replicas[static_cast<size_t>(device_of_stages[s])];
    stage.recompute = recompute;
    for (size_t u = units * s / stages; u < units * (s + 1) / stages; ++u) {
      if (stage.operators.size() % 2 == 0) stage.segments.push_back(static_cast<int>(u));
      stage.operators.push_back(static_cast<int>(u));
    }
    made.stages.push_back(std::move(stage));
  }
  plan.use(made);
  return true;
}

TEST(PlannedModel, equalsOneProcess) {
  const bool is_short = !testing::device().is_cpu();  // the simulated device is slow
  for (const auto subject : testing::subjects::all) {
    const Subject example = made(subject);
    const ModelPlan base = plan_together(world(), *example.module, example.forward, example.inputs, {.devices = world().size()});
    for (const int accumulation : is_short ? std::vector<int>{2} : std::vector<int>{1, 2}) {
      Outcome expected;
      if (example.name == "dropout") {  // masks do not depend on the cuts: one stage, one micro-batch
        const Subject alone = made(subject);
        ModelPlan plan = base;
        ASSERT_TRUE(cut(plan, {1}, ScheduleKind::gpipe));
        PipelineOptions options = plan.options(5);
        options.schedule = gpipe(1, 1);
        expected = pipelined(world().split(world().rank(), 0), alone, plan, options, accumulation);
      } else {
        expected = reference(made(subject), accumulation);
      }
      for (const std::vector<int>& replicas : divisions(world().size())) {
        const bool replicated = std::ranges::any_of(replicas, [](int each) { return each > 1; });
        if (example.splits_matter && replicated) continue;  // covered by pipeline_equivalence_test
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          ModelPlan plan = base;
          if (!cut(plan, replicas, ScheduleKind::one_forward_one_backward, recompute)) continue;
          const auto stages = static_cast<int>(replicas.size());
          std::vector<Schedule> schedules{zero_bubble_h1(stages, micro_batches)};
          if (!is_short)
            schedules.insert(schedules.end(),
                             {one_forward_one_backward(stages, micro_batches), gpipe(stages, micro_batches), last_in_first_out(stages)});
          for (const Schedule& schedule : schedules) {
            PipelineOptions options = plan.options(5);
            options.schedule = schedule;
            const Subject mine = made(subject);
            std::string what = concat(example.name, ", accumulation ", accumulation, ", recompute ", name_of(recompute), ", replicas");
            for (const int each : replicas) what += concat(' ', each);
            expect_equal(pipelined(world(), mine, plan, options, accumulation), expected, what);
          }
          for (const ScheduleKind kind : {ScheduleKind::interleaved, ScheduleKind::zero_bubble_v}) {
            if (accumulation == 1 || !cut(plan, replicas, kind, recompute)) continue;
            const Subject mine = made(subject);
            expect_equal(pipelined(world(), mine, plan, plan.options(5), accumulation), expected,
                         concat(example.name, ", ", name_of(kind), " on ", replicas.size(), " devices, recompute ", name_of(recompute)));
          }
        }
      }
    }
  }
}

TEST(PlannedModel, evaluatesAsTheModule) {
  for (const auto subject : testing::subjects::all) {
    const Subject example = made(subject);
    ModelPlan plan = plan_together(world(), *example.module, example.forward, example.inputs, {.devices = world().size()});
    EXPECT_TRUE(example.module->is_training());
    if (!cut(plan, std::vector<int>(static_cast<size_t>(world().size()), 1), ScheduleKind::gpipe, Recompute::selective)) continue;
    Pipeline pipeline(world(), *example.module, plan);
    pipeline.eval();
    example.module->eval();
    const torch::NoGradGuard no_gradients;
    const Tensors expected = example.forward(example.inputs);
    const Tensors found = pipeline.forward(example.inputs);
    ASSERT_EQ(found.size(), expected.size()) << example.name;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << example.name;  // the same operators on the same numbers
  }
}

TEST(PlannedModel, planIsTheSameOnAllRanksAndRuns) {
  const Subject subject = made(gpt);
  const ModelPlan plan = plan_together(world(), *subject.module, subject.forward, subject.inputs,
                                       {.devices = world().size(), .micro_batches = micro_batches, .link = {.latency_s = 0}});
  EXPECT_TRUE(all_agree(world(), to_json(plan.best(), plan.result().profile)));
  // Rank 0 has added up the times of units by blocks, and must not keep other rounding errors than other ranks have.
  const ModelPlan coarse = plan_together(world(), *subject.module, subject.forward, subject.inputs,
                                         {.devices = world().size(), .link = {.latency_s = 0}, .max_blocks = 6});
  EXPECT_TRUE(all_agree(world(), to_json(coarse.best(), coarse.result().profile)));
  EXPECT_TRUE(all_agree(world(), to_text(coarse.options().schedule))) << "it follows from measured times";
  EXPECT_LE(plan.best().devices(), world().size());
  if (plan.best().devices() != world().size()) return;
  const Subject mine = made(gpt);
  const Outcome found = pipelined(world(), mine, plan, plan.options(), 1);
  expect_equal(found, reference(made(gpt), 1), "as planned");
}

TEST(PlannedModel, aPlanOfAFileReplacesTheBest) {
  const Subject subject = made(chain);
  ModelPlanOptions options{.devices = world().size()};
  ModelPlan plan = plan_together(world(), *subject.module, subject.forward, subject.inputs, options);
  const std::vector<int> replicas = divisions(world().size()).back();
  ASSERT_TRUE(cut(plan, replicas, ScheduleKind::gpipe, Recompute::full));
  options.plan = std::filesystem::path(::testing::TempDir()) / concat("tw_planned_model_", world().size(), ".json");
  on_all_ranks(world(), "writing a plan", [&] {
    if (world().rank() == 0) replace_file(options.plan, to_json(plan.best(), plan.result().profile));
  });
  const ModelPlan given = plan_together(world(), *subject.module, subject.forward, subject.inputs, options);
  EXPECT_NE(given.explain().find("why this plan: it was given\n"), std::string::npos) << given.explain();
  const Plan& read = given.best();
  ASSERT_EQ(read.stages.size(), replicas.size());
  EXPECT_EQ(read.stages[0].replicas, replicas[0]);
  EXPECT_EQ(read.stages[0].recompute, Recompute::full);
  EXPECT_EQ(read.micro_batches, micro_batches);
  const size_t plans = plan.result().plans.size();
  ASSERT_TRUE(cut(plan, replicas, ScheduleKind::gpipe));
  EXPECT_EQ(plan.result().plans.size(), plans) << "a second plan replaces the first one";
  options.plan = "no_such_plan.json";
  EXPECT_THROW(plan_together(world(), *subject.module, subject.forward, subject.inputs, options), Error);
}

/// Two names of one weight, a tensor that nobody uses, and a part that stays in evaluation mode.
struct OddImpl : torch::nn::Module {
  OddImpl() {
    for (auto* each : {&first, &middle, &last, &unused}) {
      *each = torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false));
    }
    last->weight = first->weight;
    register_module("first", first);
    register_module("middle", middle);
    register_module("norm", norm);
    last->register_parameter("tied", first->weight);
    register_module("last", last);
    register_module("unused", unused);
    to(torch::kDouble);
    norm->eval();
  }
  Tensor forward(const Tensor& x) { return norm(middle(first(x).tanh())).matmul(first->weight).sin(); }
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr}, unused{nullptr};
  torch::nn::BatchNorm1d norm{width};
};

TEST(PlannedModel, keepsModesAndAllTensorsUnderAllNames) {
  torch::manual_seed(3);
  OddImpl odd;
  testing::place_module(&odd);
  const auto batch = [] { return testing::place(torch::randn({rows, width}, torch::kDouble)); };
  ModelPlan plan = plan_together(world(), odd, batch(), {.devices = world().size()});
  EXPECT_TRUE(odd.is_training());
  EXPECT_FALSE(odd.norm->is_training());
  EXPECT_EQ(odd.norm->num_batches_tracked.item<int64_t>(), 0);
  ASSERT_TRUE(cut(plan, std::vector<int>(static_cast<size_t>(world().size()), 1), ScheduleKind::gpipe));
  Pipeline pipeline(world(), odd, plan);
  const auto run = [&] { pipeline.run(batch(), batch(), [](const Tensor& y, const Tensor& t) { return torch::mse_loss(y, t); }); };
  run();
  const auto parts = pipeline.named_children();
  if (const auto* middle = parts.find("middle")) (*middle)->eval();
  const std::string refusal = testing::message_of(run);
  EXPECT_NE(refusal.find("part 'middle' of stage"), std::string::npos) << "eval() of a part would do nothing; " << refusal;
  if (const auto* middle = parts.find("middle")) (*middle)->train();
  run();
  const std::vector<NamedTensor> whole = pipeline.whole_on_root();
  if (world().rank() != 0) return;
  std::vector<std::string> expected;
  for (const NamedTensor& each : tensors_of(odd)) expected.push_back(each.name);
  std::vector<std::string> found;
  for (const NamedTensor& each : whole) found.push_back(each.name);
  std::ranges::sort(expected);
  std::ranges::sort(found);
  EXPECT_EQ(found, expected);
  for (const NamedTensor& each : whole) {
    EXPECT_TRUE(each.name != "norm.running_mean" || each.tensor.eq(0).all().item<bool>()) << "it is frozen";
  }
}

/// Training updates buffers with the mean of the inputs and of a weight; evaluation reads them on the last stage.
struct RemembersImpl : torch::nn::Module {
  RemembersImpl() {
    for (int i = 0; i < 4; ++i) weights.push_back(register_parameter(concat("w", i), torch::randn({width, width})));
    mean = register_buffer("mean", torch::zeros({width}));
    average = register_buffer("average", torch::zeros({width, width}));
    to(torch::kDouble);
  }
  Tensor forward(const Tensor& x) {
    if (is_training()) mean.mul_(0.5).add_(x.detach().mean(0), 0.5);
    Tensor y = is_training() ? x : x.matmul(average);
    for (const Tensor& each : weights) y = y.matmul(each).tanh();
    if (is_training()) average.mul_(0.5).add_(weights.back().detach(), 0.5);
    return is_training() ? y : y - mean;
  }
  Tensors weights;
  Tensor mean, average;
};

TEST(PlannedModel, whatTrainingChangesOnOneStageEvaluationReadsOnAnother) {
  const auto batch = [] { return testing::place(torch::randn({rows, width}, torch::kDouble)); };
  const Loss loss = [](const Tensor& y, const Tensor& t) { return torch::mse_loss(y, t); };
  for (const std::vector<int>& replicas : divisions(world().size())) {
    torch::manual_seed(3);
    RemembersImpl mine;
    RemembersImpl alone;
    for (size_t i = 0; i < mine.weights.size(); ++i) alone.weights[i].data().copy_(mine.weights[i]);
    testing::place_module(&mine);
    testing::place_module(&alone);
    const Tensor x = batch();
    ModelPlan plan = plan_together(world(), mine, x, {.devices = world().size()});
    if (!cut(plan, replicas, ScheduleKind::gpipe)) continue;
    PipelineOptions options = plan.options(5);
    options.schedule = gpipe(static_cast<int>(replicas.size()), 1);
    Pipeline pipeline(world(), plan.stages(mine, device_of(replicas)), options);
    for (int step = 0; step < 2; ++step) {
      pipeline.run(x, x, loss);
      alone.forward(x);
      pipeline.eval();
      alone.eval();
      const Tensor found = pipeline.forward(x);
      EXPECT_TRUE(found.allclose(alone.forward(x).detach(), tolerance, tolerance)) << replicas.size() << " stages, step " << step;
      pipeline.train();
      alone.train();
    }
  }
}

TEST(PlannedModel, passAddsWeightedGradients) {
  const Subject subject = made(chain);
  ModelPlan plan = plan_together(world(), *subject.module, subject.forward, subject.inputs, {.devices = world().size()});
  for (const std::vector<int>& replicas : divisions(world().size())) {
    if (!cut(plan, replicas, ScheduleKind::one_forward_one_backward)) continue;
    const Subject mine = made(chain);
    const Subject alone = made(chain);
    const Loss loss = [](const Tensor& y, const Tensor& t) { return torch::mse_loss(y, t); };
    const Tensor& x = subject.inputs[0];
    const Tensor& t = subject.targets[0];
    Pipeline pipeline(world(), *mine.module, plan);
    const int stages = pipeline.schedule().stages;
    EXPECT_EQ(pipeline.needs_samples(), pipeline.stages().front() == 0 || pipeline.stages().back() == stages - 1);
    const Tensor nothing = torch::empty({x.size(0), 0});
    const bool looks = pipeline.needs_samples();
    const Tensor expected_loss = torch::mse_loss(alone.forward(subject.inputs)[0], t);
    (1.5 * expected_loss).backward();
    for (const double weight : {0.5, 1.0}) {
      int told = 0;
      pipeline.pass({.inputs = looks ? x : nothing,
                     .targets = looks ? t : nothing,
                     .loss = loss,
                     .weight = weight,
                     .on_loss = [&](const Tensor&, Tensor& mean) {
                       EXPECT_NEAR(mean.item<double>(), expected_loss.item<double>(), tolerance) << "without the weight";
                       ++told;
                     }});
      EXPECT_EQ(told, 1);
    }
    const auto expected = alone.module->named_parameters();
    for (const auto& each : pipeline.named_parameters()) {
      EXPECT_TRUE(each.value().grad().allclose(expected[each.key()].grad(), tolerance, tolerance)) << each.key();
    }
  }
}

TEST(PlannedModel, refusesOnAllRanks) {
  const Subject subject = made(chain);
  const Tensor secret = testing::place(torch::randn({width, width}, torch::kDouble)).requires_grad_(true);
  EXPECT_THROW(plan_together(world(), *subject.module, [&](const Tensors& x) { return Tensors{x[0].matmul(secret)}; }, subject.inputs, {}), Error);
  EXPECT_THROW(plan_together(world(), *subject.module, subject.forward, subject.inputs, {.devices = world().size(), .memory_bytes = 100}), Error);
}

}  // namespace planned_model_test
}  // namespace tw::pipeline
