// SPDX-License-Identifier: Apache-2.0
// pipeline/step: a forward and backward pass of a batch in micro-batches, in stages on as many ranks, against one rank that runs the same
// micro-batches ("one_rank_micro") or the batch in one piece ("one_rank").
#include "measure.hpp"

#include <torch/torch.h>

#include <tw/pipeline/pipeline.hpp>

namespace {

using namespace tw::pipeline;
using tw::benchmark::Contest;

constexpr int64_t width = 512;
constexpr int64_t batch = 1024;
constexpr int micro_batches = 8;

struct LayerImpl : torch::nn::Module {
  LayerImpl() : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

void measure_step(const Contest& contest, const std::string& name, Schedule (*schedule)(int, int), bool unsplit) {
  const tw::Communicator alone = contest.comm().split(contest.comm().rank(), 0);
  const tw::Communicator& ranks = contest.is_ours() ? contest.comm() : alone;
  const std::vector<BlockFactory> blocks(16, block([] { return Layer(); }));
  torch::manual_seed(1);
  Pipeline model(ranks, blocks, {.schedule = schedule(ranks.size(), contest.is_ours() || !unsplit ? micro_batches : 1)});
  const torch::Tensor x = torch::randn({batch, width});
  const torch::Tensor y = torch::randn({batch, width});
  tw::benchmark::Case of{.benchmark = "pipeline/step", .name = name, .baseline = unsplit ? "one_rank" : "one_rank_micro"};
  of.rounds = 15;
  of.step = [&] {
    if (!contest.is_ours() && contest.comm().rank() != 0) return;
    model.zero_grad();
    model.run(x, y, [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); });
  };
  tw::benchmark::compare(contest, of);
}

void measure_all(const Contest& contest) {
  for (const bool unsplit : {false, true}) {
    measure_step(contest, "1f1b", one_forward_one_backward, unsplit);
    measure_step(contest, "gpipe", gpipe, unsplit);
  }
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
