// SPDX-License-Identifier: Apache-2.0
// Models from Python, and recurrent and attention modules of torch::nn, captured, cut, and trained for three steps, against one process.
// Run: mpirun -n RANKS accept_vision_models DIR, as export_models.py writes it; prints a line each, and ends with 1 where one differs
#include <torch/script.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <tw/comm/objects.hpp>
#include <tw/graph/forward.hpp>
#include <tw/graph/torchscript.hpp>
#include <tw/mpi/environment.hpp>

#include "cut_trial.hpp"

namespace {

using tw::pipeline::Trainee;

Trainee of_file(const std::string& path, int64_t size) {
  torch::manual_seed(2);
  const auto module = std::make_shared<tw::graph::TorchScript>(torch::jit::load(path));
  return {.name = path.substr(path.rfind('/') + 1),
          .module = module,
          .forward = tw::graph::forward_of(*module),
          .inputs = {torch::randn({6, 3, size, size}, torch::kDouble)},
          .targets = {torch::randn({6, 10}, torch::kDouble)},
          .splits_matter = true};
}

/// @param forward of a batch [n, 5, 8] whose rows come first
Trainee of_module(const std::string& name, const std::shared_ptr<torch::nn::Module>& module,
                  const std::function<torch::Tensor(torch::Tensor)>& forward) {
  module->to(torch::kDouble);
  return {.name = name,
          .module = module,
          .forward = [forward](const std::vector<torch::Tensor>& x) { return std::vector<torch::Tensor>{forward(x[0])}; },
          .inputs = {torch::randn({9, 5, 8}, torch::kDouble)},
          .targets = {torch::randn({9, 5, 8}, torch::kDouble)}};
}

Trainee transformer(double dropout) {
  torch::manual_seed(2);
  torch::nn::Transformer net(torch::nn::TransformerOptions(8, 2, 2, 2).dim_feedforward(16).dropout(dropout));
  Trainee made = of_module(dropout > 0 ? "torch::nn::Transformer with dropout" : "torch::nn::Transformer", net.ptr(), [net](torch::Tensor x) mutable {
    const torch::Tensor by_time = x.transpose(0, 1);
    return net(by_time, by_time.flip(0)).transpose(0, 1);
  });
  made.draws = dropout > 0;
  return made;
}

Trainee lstm() {
  torch::manual_seed(2);
  torch::nn::LSTM net(torch::nn::LSTMOptions(8, 8).num_layers(3).dropout(0.3).batch_first(true));
  Trainee made = of_module("torch::nn::LSTM with dropout", net.ptr(), [net](torch::Tensor x) mutable { return std::get<0>(net(x)); });
  made.draws = true;
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const tw::Communicator world = mpi.world().dup();
  std::vector<std::function<Trainee()>> all{[] { return transformer(0); }, [] { return transformer(0.2); }, lstm};
  std::ifstream list(argc > 1 ? std::string(argv[1]) + "/inputs.txt" : "");
  for (std::string line; std::getline(list, line);) {
    std::string name;
    int64_t size = 0;
    std::istringstream(line) >> name >> size;
    all.push_back([path = std::string(argv[1]) + "/" + name + ".pt", size] { return of_file(path, size); });
  }
  bool failed = false;
  for (size_t i = 0; i < all.size(); ++i) {
    tw::pipeline::CutTrial trial(world, all[i], i, 3, false);
    std::string problem;
    try {
      problem = trial.run();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    std::string problems;
    for (const std::string& each : tw::allgather_strings(world, problem)) problems += each.empty() ? "" : "\n  " + each;
    if (world.rank() == 0) std::printf("%s: %s%s\n", trial.what().c_str(), problems.empty() ? "equal" : "DIFFERS", problems.c_str());
    failed = failed || !problems.empty();
  }
  if (world.rank() == 0)
    std::printf("%zu models on %d ranks: %s\n", all.size(), world.size(), failed ? "some differ from one process" : "all equal one process");
  return failed ? 1 : 0;
}
