// SPDX-License-Identifier: Apache-2.0
// Models from Python, and recurrent and attention modules of torch::nn: captured, cut, trained for three steps, and compared with one process.
// Run: mpirun -n RANKS accept_zoo DIR TABLE, with DIR as written by export_zoo.py; writes a row per model into TABLE, and exits with 1 if one differs
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

/// A line of inputs.txt.
struct File {
  std::string name;
  std::string values;          // "floats", or the number of distinct tokens
  std::vector<int64_t> shape;  // shape of one row
};

std::vector<File> files_of(const std::string& folder) {
  std::vector<File> files;
  std::ifstream list(folder + "/inputs.txt");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    File& file = files.emplace_back();
    words >> file.name >> file.values;
    for (int64_t size = 0; words >> size;) file.shape.push_back(size);
  }
  return files;
}

Trainee of_file(const std::string& folder, const File& file) {
  constexpr int64_t rows = 6;
  torch::manual_seed(2);
  const auto module = std::make_shared<tw::graph::TorchScript>(torch::jit::load(folder + "/" + file.name + ".pt"));
  std::vector<int64_t> shape{rows};
  shape.insert(shape.end(), file.shape.begin(), file.shape.end());
  const bool floats = file.values == "floats";
  Trainee made{.name = file.name,
               .module = module,
               .forward = tw::graph::forward_of(*module),
               .inputs = {floats ? torch::randn(shape, torch::kDouble) : torch::randint(1, std::stoll(file.values), shape)},
               .targets = {},
               .splits_matter = true};
  const torch::NoGradGuard no_gradients;
  module->eval();
  for (const torch::Tensor& output : module->forward(made.inputs)) made.targets.push_back(torch::randn_like(output));
  module->train();
  return made;
}

/// @param forward takes a batch [n, 5, 8] with rows first
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
  const std::string folder = argc > 1 ? argv[1] : ".";
  std::vector<std::pair<std::string, std::function<Trainee()>>> all;
  for (const auto& make : std::vector<std::function<Trainee()>>{[] { return transformer(0); }, [] { return transformer(0.2); }, lstm})
    all.emplace_back(make().name, make);
  for (const File& file : files_of(folder)) all.emplace_back(file.name, [&folder, file] { return of_file(folder, file); });
  std::ofstream table(world.rank() == 0 && argc > 2 ? argv[2] : "/dev/null");
  int equal = 0;
  int refused = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    tw::pipeline::CutTrial trial(world, all[i].second, i, 3, false);
    std::string problem;
    try {
      problem = trial.run();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    std::string problems;
    for (const std::string& each : tw::allgather_strings(world, problem)) problems += each.empty() ? "" : "\n  " + each;
    equal += static_cast<int>(problems.empty());
    refused += static_cast<int>(!problems.empty() && trial.is_refused());
    const std::string outcome = problems.empty() ? "equal" : trial.is_refused() ? "refused: " + problem : "DIFFERS";
    table << "| " << all[i].first << " | " << outcome << " |" << std::endl;
    if (world.rank() == 0) std::printf("%s: %s%s\n", trial.what().c_str(), outcome.c_str(), outcome == "DIFFERS" ? problems.c_str() : "");
  }
  const int differ = static_cast<int>(all.size()) - equal - refused;
  if (world.rank() == 0)
    std::printf("%zu models on %d ranks: %d equal one process, %d are refused, %d differ\n", all.size(), world.size(), equal, refused, differ);
  return differ > 0 ? 1 : 0;
}
