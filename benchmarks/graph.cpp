// SPDX-License-Identifier: Apache-2.0
// graph/replay: forward and backward pass of a captured graph, operator by operator, against the module itself ("module").
#include "measure.hpp"

#include <torch/torch.h>

#include <map>
#include <tw/graph/capture.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>

namespace {

using tw::benchmark::Contest;
using Tensors = std::vector<at::Tensor>;

template <class Holder>
void measure(const Contest& contest, const std::string& name, Holder model, const at::Tensor& x, int steps) {
  std::vector<tw::NamedTensor> parameters;
  std::map<std::string, at::Tensor> by_name;
  for (const auto& each : model->named_parameters()) {
    parameters.push_back({each.key(), each.value()});
    by_name[each.key()] = each.value();
  }
  const auto graph = tw::graph::capture([&](const Tensors& inputs) { return Tensors{model->forward(inputs[0])}; }, parameters, {}, {x});
  const tw::graph::Interpreter replay(graph, [&](const std::string& tensor) { return by_name.at(tensor); });
  tw::benchmark::Case of{.benchmark = "graph/replay", .name = name, .baseline = "module"};
  of.steps = steps;
  of.step = [&] {
    const at::Tensor output = contest.is_ours() ? replay.run({x}, {.rows = x.size(0)})[0] : model->forward(x);
    output.sum().backward();
  };
  tw::benchmark::compare(contest, of);
}

void measure_all(const Contest& contest) {
  torch::manual_seed(1);
  measure(contest, "lenet", tw::models::LeNet(), torch::randn({64, 1, 28, 28}), 5);
  measure(contest, "mlp_16", tw::models::Mlp(std::vector<int64_t>{16, 16, 16, 16}), torch::randn({8, 16}), 500);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
