// SPDX-License-Identifier: Apache-2.0
// pipeline/predicted: the step time that a plan predicts from its measured profile, against the measured one, for models in two stages.
// pipeline/bubble, with the argument "virtual": how much longer a step of p sleeping stages takes than m (F + B), the time of each stage for its
// micro-batches alone, against (p - 1)(F + B).
#include "measure.hpp"

#include <torch/torch.h>

#include <string_view>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/resnet.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

namespace {

using namespace tw::pipeline;
using tw::benchmark::Contest;

constexpr int rounds = 15;

/// The fastest predicted plan with two stages on one device each.
Plan two_stages(const PlanResult& result, int micro_batches) {
  const auto count = static_cast<int>(result.profile.operators.size());
  Plan best;
  for (int cut = 1; cut < count; ++cut) {
    Plan plan{.hash = result.profile.hash, .batch = result.options.batch, .micro_batches = micro_batches, .stages = {{}, {}}};
    for (int op = 0; op < count; ++op) plan.stages[op < cut ? 0 : 1].operators.push_back(op);
    if (!problems_of(plan, result.profile, 2).empty()) continue;
    plan = predicted(plan, result.profile, result.cluster);
    if (best.stages.empty() || plan.step_s < best.step_s) best = plan;
  }
  return best;
}

template <class Module>
void measure_prediction(const Contest& contest, const std::string& name, Module& model, const torch::Tensor& x, const torch::Tensor& y) {
  constexpr int micro_batches = 8;
  const tw::Communicator& comm = contest.comm();
  const torch::Tensor example = x.narrow(0, 0, x.size(0) / micro_batches);
  std::vector<double> predicted_ms;
  std::vector<double> measured_ms;
  for (int round = 0; round < 3; ++round) {  // profiles vary too
    ModelPlan plan = plan_together(comm, model, example, {.devices = 2, .batch = x.size(0), .micro_batches = micro_batches});
    plan.use(two_stages(plan.result(), micro_batches));
    Pipeline pipeline(comm, model, plan);
    for (int step = -2; step < rounds / 3; ++step) {
      comm.barrier();
      const tw::Stopwatch watch;
      pipeline.zero_grad();
      pipeline.run(x, y, [](const torch::Tensor& logits, const torch::Tensor& t) {
        return torch::cross_entropy_loss(logits.reshape({t.numel(), -1}), t.reshape({-1}));
      });
      comm.barrier();
      if (step < 0) continue;
      predicted_ms.push_back(1e3 * plan.best().step_s);
      measured_ms.push_back(1e3 * watch.elapsed().count());
    }
  }
  tw::benchmark::print(contest, {.benchmark = "pipeline/predicted", .name = name, .baseline = "prediction", .rounds = rounds}, predicted_ms,
                       measured_ms);
}

void measure_predictions(const Contest& contest) {
  torch::manual_seed(1);
  const auto images = [](int64_t n) { return torch::randn({n, 1, 28, 28}); };
  const auto classes = [](int64_t n) { return torch::randint(10, {n}); };
  torch::nn::Sequential mlp(torch::nn::Linear(784, 512));
  for (int layer = 0; layer < 14; ++layer) {
    mlp->push_back(torch::nn::Tanh());
    mlp->push_back(torch::nn::Linear(512, 512));
  }
  measure_prediction(contest, "mlp", *mlp, torch::randn({1024, 784}), torch::randint(512, {1024}));
  tw::models::LeNet lenet;
  measure_prediction(contest, "lenet", *lenet, images(512), classes(512));
  tw::models::ResNet resnet;
  measure_prediction(contest, "resnet", *resnet, images(256), classes(256));
  tw::models::Gpt gpt(tw::models::GptOptions{.width = 128, .blocks = 6});
  measure_prediction(contest, "gpt", *gpt, torch::randint(256, {64, 64}), torch::randint(256, {64, 64}));
}

/// F = 20 ms, B = 40 ms.
struct Sleep : torch::autograd::Function<Sleep> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/, const torch::Tensor& x) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/, torch::autograd::variable_list cotangents) {
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    return cotangents;
  }
};

struct SleeperImpl : torch::nn::Module {
  SleeperImpl() : scale(register_parameter("scale", torch::ones({1}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return Sleep::apply(x * scale); }
  torch::Tensor scale;
};
TORCH_MODULE(Sleeper);

void measure_bubble(const Contest& contest, const std::string& name, Schedule (*schedule)(int, int)) {
  constexpr int micro_batches = 16;
  const tw::Communicator& comm = contest.comm();
  const tw::Communicator alone_comm = comm.split(comm.rank(), 0);
  const auto stages_on = [&](const tw::Communicator& of) {
    return Pipeline(of, std::vector<BlockFactory>(static_cast<size_t>(of.size()), block([] { return Sleeper(); })),
                    {.schedule = schedule(of.size(), micro_batches)});
  };
  Pipeline pipeline = stages_on(comm);
  Pipeline alone = stages_on(alone_comm);
  const torch::Tensor x = torch::ones({micro_batches, 4});
  const auto step_ms = [&](Pipeline& stages) {  // mean over all ranks
    comm.barrier();
    const tw::Stopwatch watch;
    stages.run(x, x, [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); });
    comm.barrier();
    double seconds = watch.elapsed().count();
    tw::mpi::allreduce(comm, {&seconds, 1, tw::ElementType::float64}, tw::ReduceOp::sum);
    return 1e3 * seconds / comm.size();
  };
  std::vector<double> formula_ms;
  std::vector<double> measured_ms;
  for (int round = -1; round < 10; ++round) {
    const double busy_ms = step_ms(alone);
    const double total_ms = step_ms(pipeline);
    if (round < 0) continue;
    formula_ms.push_back((comm.size() - 1) * busy_ms / micro_batches);
    measured_ms.push_back(total_ms - busy_ms);
  }
  tw::benchmark::print(contest, {.benchmark = "pipeline/bubble", .name = name, .baseline = "formula", .rounds = 10}, formula_ms, measured_ms);
}

void measure_bubbles(const Contest& contest) {
  measure_bubble(contest, "1f1b", one_forward_one_backward);
  measure_bubble(contest, "gpipe", gpipe);
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_virtual = argc > 1 && std::string_view(argv[1]) == "virtual";
  return tw::benchmark::run(argc, argv, is_virtual ? measure_bubbles : measure_predictions, 1);
}
