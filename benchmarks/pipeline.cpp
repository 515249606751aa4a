// SPDX-License-Identifier: Apache-2.0
// pipeline/step: a forward and backward pass of a batch in micro-batches, in one stage per rank. It is compared with one rank that runs the same
// micro-batches ("one_rank_micro") or the whole batch ("one_rank"). A third baseline ("stages_apart") is the schedule's time if stages compute
// concurrently at their usual speed and nothing else takes time.
// pipeline/halves: the same blocks as one captured module; zb-h1 against 1f1b with the same stages, and zb-v with stages of half the size, for two
// numbers of micro-batches; and zb-h1 on one rank, where halves gain nothing: what they cost.
#include "measure.hpp"

#include <torch/torch.h>

#include <tw/base/concat.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

namespace {

using namespace tw::pipeline;
using tw::benchmark::Contest;

constexpr int64_t width = 512;
constexpr int64_t batch = 1024;
constexpr int micro_batches = 8;
constexpr int blocks = 16;

struct LayerImpl : torch::nn::Module {
  LayerImpl() : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

void measure_step(const Contest& contest, const std::string& name, Schedule (*schedule)(int, int), const std::string& baseline) {
  const tw::Communicator alone = contest.comm().split(contest.comm().rank(), 0);
  const tw::Communicator& ranks = contest.is_ours() ? contest.comm() : alone;
  const bool unsplit = !contest.is_ours() && baseline == "one_rank";
  const bool apart = !contest.is_ours() && baseline == "stages_apart";  // each rank is an independent stage, without messages or waits
  const int stages = contest.comm().size();
  const std::vector<BlockFactory> layers(static_cast<size_t>(apart ? blocks / stages : blocks), block([] { return Layer(); }));
  torch::manual_seed(1);
  Pipeline model(ranks, layers, {.schedule = schedule(ranks.size(), unsplit ? 1 : micro_batches)});
  const torch::Tensor x = torch::randn({batch, width});
  const torch::Tensor y = torch::randn({batch, width});
  tw::benchmark::Case of{.benchmark = "pipeline/step", .name = name, .baseline = baseline};
  of.rounds = 15;
  of.steps = 3;
  if (apart) of.units = static_cast<double>(micro_batches) / (micro_batches + stages - 1);  // the rest is the schedule's bubble
  of.step = [&] {
    if (!contest.is_ours() && !apart && contest.comm().rank() != 0) return;
    model.zero_grad();
    model.run(x, y, [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); });
  };
  tw::benchmark::compare(contest, of);
}

/// All blocks as a captured module, cut evenly.
ModelPlan even_plan(const tw::Communicator& comm, torch::nn::Sequential& net, ScheduleKind schedule, int parts) {
  ModelPlan plan = plan_together(comm, *net, torch::randn({batch / parts, width}), {.devices = comm.size()});
  const auto units = static_cast<int>(plan.result().profile.operators.size());
  Plan even{.hash = plan.result().profile.hash, .batch = batch, .micro_batches = parts, .schedule = schedule};
  const int stages = comm.size() * stages_per_device(schedule);
  for (int stage = 0; stage < stages; ++stage) {
    even.stages.emplace_back();
    for (int unit = units * stage / stages; unit < units * (stage + 1) / stages; ++unit) even.stages.back().operators.push_back(unit);
  }
  plan.use(even);
  return plan;
}

void measure_halves(const Contest& contest, ScheduleKind schedule, int parts, bool is_alone) {
  const tw::Communicator alone = contest.comm().split(contest.comm().rank(), 0);
  const tw::Communicator& ranks = is_alone ? alone : contest.comm();
  torch::manual_seed(1);
  torch::nn::Sequential net;
  for (int i = 0; i < blocks; ++i) net->push_back(Layer());
  const ModelPlan plan = even_plan(ranks, net, contest.is_ours() ? schedule : ScheduleKind::one_forward_one_backward, parts);
  Pipeline model(ranks, *net, plan);
  const torch::Tensor x = torch::randn({batch, width});
  const torch::Tensor y = torch::randn({batch, width});
  tw::benchmark::Case of{
      .benchmark = "pipeline/halves", .name = tw::concat(name_of(schedule), ", m = ", parts, is_alone ? ", one rank" : ""), .baseline = "1f1b"};
  of.rounds = 15;
  of.steps = 3;
  of.step = [&] {
    if (is_alone && contest.comm().rank() != 0) return;
    model.zero_grad();
    model.run(x, y, [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); });
  };
  tw::benchmark::compare(contest, of);
}

void measure_all(const Contest& contest) {
  for (const char* baseline : {"one_rank_micro", "one_rank", "stages_apart"}) {
    measure_step(contest, "1f1b", one_forward_one_backward, baseline);
    measure_step(contest, "gpipe", gpipe, baseline);
  }
  for (const ScheduleKind schedule : {ScheduleKind::zero_bubble_h1, ScheduleKind::zero_bubble_v}) {
    for (const int parts : {4, 8}) measure_halves(contest, schedule, parts, false);
  }
  measure_halves(contest, ScheduleKind::zero_bubble_h1, micro_batches, true);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
