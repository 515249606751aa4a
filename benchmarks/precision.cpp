// SPDX-License-Identifier: Apache-2.0
// train/precision: a training step of the trainer's models under autocast, in bfloat16 and in float16, against float32; one process each. 3 ranks,
// one of which works at a time.
#include "measure.hpp"

#include <torch/torch.h>

#include <array>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/train.hpp>

namespace {

using tw::ComputeType;
using tw::train::Model;

constexpr std::array types{ComputeType::float32, ComputeType::bfloat16, ComputeType::float16};  // by contestant

void compare_step(const tw::benchmark::Contest& contest, const std::string& name, int steps, const Model& plain, const at::Tensor& inputs) {
  const ComputeType compute = types.at(static_cast<size_t>(contest.contestant()));
  const Model model = tw::train::under_autocast(plain, compute);
  const tw::train::Objective objective = tw::train::under_autocast(tw::train::classification(), compute);
  const at::Tensor targets = torch::randint(10, {inputs.size(0)}, torch::kLong);
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(1e-3));
  tw::benchmark::Case of{.benchmark = "train/precision", .name = name + "_bfloat16", .baseline = "float32", .steps = steps};
  of.step = [&] {
    sgd.zero_grad();
    model.trained->pass({.inputs = inputs, .targets = targets, .loss = objective.loss});
    sgd.step();
  };
  const auto times = tw::benchmark::take_turns(contest, of);
  tw::benchmark::print(contest, of, times[0], times[1]);
  of.name = name + "_float16";
  tw::benchmark::print(contest, of, times[0], times[2]);
}

void measure_all(const tw::benchmark::Contest& contest) {
  torch::manual_seed(1);
  compare_step(contest, "lenet", 5, tw::train::model_of(tw::models::LeNet()), torch::randn({64, 1, 28, 28}));
  const std::vector<int64_t> widths{1024, 1600, 1600, 1600, 800, 10};
  compare_step(contest, "mlp_8e6", 5, tw::train::model_of(tw::models::Mlp(widths)), torch::randn({32, 1024}));
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all, static_cast<int>(types.size())); }
