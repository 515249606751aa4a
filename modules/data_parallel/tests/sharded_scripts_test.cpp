// SPDX-License-Identifier: Apache-2.0
// Fully sharded models other than torch::nn modules: TorchScript, with and without its optimiser, and captured graphs.
#include <torch/script.h>

#include <map>
#include <tw/graph.hpp>
#include <tw/graph/torchscript.hpp>

#include "sharded_training.hpp"

namespace sharded_scripts_test {

using namespace tw::testing::sharded;
using tw::testing::world;
using Tensors = std::vector<at::Tensor>;

torch::jit::Module make_script() {
  torch::manual_seed(5);
  torch::jit::Module script("Net");
  const auto add = [&](const std::string& name, at::IntArrayRef shape) {
    script.register_parameter(name, (torch::randn(shape, torch::kDouble) / 3).requires_grad_(), false);
  };
  add("first", {13, 8});
  add("bias", {13});
  add("gain", {13});
  add("second", {8, 13});
  add("last", {8, 8});
  script.register_buffer("scale", torch::full({}, 0.5, torch::kDouble));
  script.define(R"(
    def block(self, x):
        y = torch.layer_norm(torch.linear(x, self.first, self.bias), [13], self.gain)
        return torch.tanh(torch.linear(torch.sigmoid(y) * torch.tanh(y) + torch.relu(y), self.second))
    def forward(self, x):
        for i in range(2):
            x = x + self.block(x) * self.scale
        if x.size(1) == 8:
            x = torch.mm(x, self.last)
        else:
            x = torch.mm(x, self.last.t())
        first, second = torch.chunk(x, 2, 1)
        return first * second
  )");
  return script;
}

/// A model for these tests: named tensors and a forward pass.
struct Named {
  std::vector<tw::NamedTensor> parameters;
  std::function<at::Tensor(const at::Tensor& x)> forward;
};

std::vector<tw::NamedTensor> parameters_of(const torch::jit::Module& script) {
  std::vector<tw::NamedTensor> all;
  for (const auto& each : script.named_parameters()) all.push_back({each.name, each.value});
  return all;
}

Tensors tensors_of(const Named& model) {
  Tensors all;
  for (const auto& each : model.parameters) all.push_back(each.tensor);
  return all;
}

/// Six steps, since TorchScript profiles the first ones and then runs another program.
void expect_training_equal(const std::function<Named()>& make) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const Named reference = make();
    torch::optim::SGD reference_optimizer(tensors_of(reference), torch::optim::SGDOptions(0.05).momentum(0.9));
    const Named ours = make();
    tw::FullySharded sharded(world(), ours.parameters, options);
    torch::optim::SGD optimizer(sharded.slices(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int64_t step = 0; step < 6; ++step) {
      reference_optimizer.zero_grad();
      optimizer.zero_grad();
      reference.forward(all_samples(step)).square().mean().backward();
      ours.forward(my_samples(step)).square().mean().backward();
      reference_optimizer.step();
      optimizer.step();
    }
    for (size_t i = 0; i < reference.parameters.size(); ++i) {
      expect_near(ours.parameters[i].tensor, reference.parameters[i].tensor, text_of(options) + ' ' + reference.parameters[i].name);
    }
    const at::NoGradGuard no_grad;
    expect_near(ours.forward(all_samples(7)), reference.forward(all_samples(7)), text_of(options));
  }
}

TEST(ShardedScripts, TorchScriptByItsOptimisingExecutor) {
  expect_training_equal([] {
    const auto script = std::make_shared<torch::jit::Module>(make_script());
    return Named{parameters_of(*script), [script](const at::Tensor& x) { return script->forward({x}).toTensor(); }};
  });
}

TEST(ShardedScripts, TorchScriptAsAModule) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const Kind kind{"script", [] { return std::make_shared<tw::graph::TorchScript>(make_script()); },
                    [](torch::nn::Module& module, const at::Tensor& x, int64_t) {
                      return dynamic_cast<tw::graph::TorchScript&>(module).forward({x})[0].square().mean();
                    }};
    tw::testing::sharded::expect_training_equal(kind, "SGD", options);
  }
}

/// Runs the captured graph of `net`, a sequence, with its parameters.
Named captured(const torch::nn::Sequential& net, const tw::graph::Graph& graph) {
  Named model{.parameters = tw::testing::sharded::named_parameters_of(*net), .forward = {}};
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : model.parameters) by_name.emplace(name, tensor);
  const auto interpreter = std::make_shared<tw::graph::Interpreter>(graph, [&](const std::string& name) { return by_name.at(name); });
  model.forward = [interpreter](const at::Tensor& x) { return interpreter->run({x}, {.rows = x.size(0)})[0]; };
  return model;
}

tw::graph::Graph graph_of(torch::nn::Sequential net, const at::Tensor& example) {
  return tw::graph::capture([&net](const Tensors& x) { return Tensors{net->forward(x[0])}; }, tw::testing::sharded::named_parameters_of(*net), {},
                            {example});
}

torch::nn::Sequential double_layers() {
  torch::manual_seed(5);
  auto net = layers();
  net->to(torch::kDouble);
  return net;
}

TEST(ShardedScripts, ACapturedGraph) {
  const tw::graph::Graph graph = graph_of(double_layers(), torch::randn({3, 8}, torch::kDouble));
  expect_training_equal([&] { return captured(double_layers(), graph); });
}

// Capturing a sharded model gives the graph of the model.
TEST(ShardedScripts, AGraphThatIsCapturedOfAShardedModel) {
  const at::Tensor example = torch::ones({3, 8}, torch::kDouble);
  const std::string expected = to_text(graph_of(double_layers(), example));
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto net = double_layers();
    tw::FullySharded sharded(world(), *net, options);
    const tw::graph::Graph graph = graph_of(net, example);
    EXPECT_EQ(to_text(graph), expected) << text_of(options);
    const Named model = captured(net, graph);
    expect_near(model.forward(my_samples(0)), double_layers()->forward(my_samples(0)), text_of(options));
  }
}

}  // namespace sharded_scripts_test
