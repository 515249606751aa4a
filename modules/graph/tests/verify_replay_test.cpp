// SPDX-License-Identifier: Apache-2.0
// What operators do not declare: numbers that a module keeps, memory that they write to, results that autograd returns.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/base/error.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/cuts.hpp>
#include <tw/graph/forward.hpp>

#include "graph_of.hpp"
#include "message_of.hpp"

namespace tw::graph {
namespace verify_replay_test {

using at::Tensor;

/// Evaluation uses what train(false) computed from the parameters.
struct FusesImpl : torch::nn::Module {
  FusesImpl() : weight(register_parameter("weight", torch::randn({3, 3}))), scale(register_parameter("scale", torch::ones({3}))) { train(false); }
  void train(bool on) override {
    Module::train(on);
    const torch::NoGradGuard no_gradients;
    if (!on) fused = weight * scale;
  }
  Tensor forward(const Tensor& x) { return x.matmul(is_training() ? weight * scale : fused); }
  Tensor weight, scale, fused;
};

TEST(VerifyReplay, aModuleThatKeepsWhatItHasMadeOfItsParametersIsRefused) {
  for (const bool training : {true, false}) {
    FusesImpl module;
    module.train(training);
    const Tensor weight = module.weight.detach().clone();
    const std::string message = testing::message_of<Error>([&] { capture_modes(module, forward_of(module), {torch::randn({4, 3})}); });
    EXPECT_NE(message.find("a tensor of shape [3, 3] is neither a parameter nor a buffer, but changes with them"), std::string::npos) << message;
    EXPECT_EQ(module.is_training(), training);
    EXPECT_TRUE(module.weight.equal(weight)) << "as it was";
    module.train(false);
    EXPECT_TRUE(module.fused.equal((module.weight * module.scale).detach())) << "made of what it was";
  }
}

TEST(VerifyReplay, modesAreCapturedAndPutBack) {
  torch::nn::Sequential net(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3), torch::nn::Dropout(0.5), torch::nn::BatchNorm1d(3));
  net[3]->as<torch::nn::BatchNorm1d>()->eval();
  const auto before = tensors_of(*net);
  std::map<std::string, Tensor> copies;
  for (const auto& [name, tensor] : before) copies[name] = tensor.detach().clone();
  const ModeGraphs graphs = capture_modes(*net, forward_of(*net), {torch::randn({4, 3})});
  const auto changes = [](const Graph& graph) {
    return std::ranges::count_if(graph.nodes, [](const Node& node) { return node.op == "aten::batch_norm" && !node.changes.empty(); });
  };
  EXPECT_EQ(changes(graphs.training), 1) << "the other one is frozen";
  EXPECT_EQ(changes(graphs.evaluation), 0);
  EXPECT_EQ(graphs.training.min_rows, 2) << "a batch norm of one row throws";
  EXPECT_TRUE(net->is_training());
  EXPECT_FALSE(net[3]->as<torch::nn::BatchNorm1d>()->is_training());
  for (const auto& [name, tensor] : before) EXPECT_TRUE(tensor.equal(copies[name])) << name;
}

// Their schemas do not declare it.
TEST(VerifyReplay, operatorsThatWriteWithoutSayingSoAreSeen) {
  const std::vector<NamedTensor> statistics{{"mean", torch::zeros({3})}, {"variance", torch::ones({3})}};
  const Tensor& mean = statistics[0].tensor;
  const Tensor& variance = statistics[1].tensor;
  const std::vector<Forward> functions{[&](const Tensors& x) {
                                         const Tensor y = std::get<0>(torch::native_batch_norm(x[0], {}, {}, mean, variance, true, 0.1, 1e-5));
                                         return Tensors{y.sin() + mean};
                                       },
                                       [&](const Tensors& x) {
                                         const auto [found, deviation] = torch::batch_norm_update_stats(x[0], mean, variance, 0.1);
                                         return Tensors{(x[0] - found).sin() + mean};
                                       }};
  for (const Forward& forward : functions) {
    for (const Tensor& example : {torch::randn({4, 3}), torch::zeros({4, 3})}) {
      const Graph graph = capture(forward, {}, statistics, {example});
      const auto writes = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.op.find("batch_norm") != std::string::npos; });
      ASSERT_NE(writes, graph.nodes.end());
      EXPECT_FALSE(writes->changes.empty()) << to_text(graph);
      EXPECT_EQ(units_of(graph).size(), 1U) << "who reads the mean later stays with it";
      EXPECT_TRUE(mean.equal(torch::zeros({3})));
    }
  }
}

// Forces: a gradient in the forward pass. Autograd returns an operator's saved result as a different tensor object.
TEST(VerifyReplay, gradientsInForwardAreOperators) {
  const std::vector<std::function<Tensor(const Tensor&)>> energies{
      [](const Tensor& x) { return x.tanh(); }, [](const Tensor& x) { return x.sigmoid(); },  [](const Tensor& x) { return x.relu(); },
      [](const Tensor& x) { return x.exp(); },  [](const Tensor& x) { return x.softmax(1); }, [](const Tensor& x) { return (x * x + 1).sqrt(); },
  };
  for (size_t i = 0; i < energies.size(); ++i) {
    for (const bool trained : {false, true}) {  // by a loss of the forces
      torch::nn::Linear layer(3, 3);
      const Forward forward = [&](const Tensors& x) {
        const torch::AutoGradMode gradients(true);
        const Tensor at = x[0].detach().clone().requires_grad_(true);
        const Tensor energy = energies[i](layer(at)).square().sum();
        return Tensors{torch::autograd::grad({energy}, {at}, {}, trained, trained)[0] + x[0] * layer->bias};
      };
      const Graph graph = captured(*layer, forward, {torch::randn({4, 3})});
      const auto passed = [&](const Tensor& output) {
        layer->zero_grad();
        output.square().sum().backward();
        return Tensors{output.detach(), layer->bias.grad(), trained ? layer->weight.grad() : Tensor(torch::zeros({}))};
      };
      const Tensor x = torch::randn({5, 3});
      const Tensors expected = passed(forward({x})[0]);
      const Tensors found = passed(interpreter_of(graph, *layer).run({x}, {.rows = 5})[0]);
      for (size_t k = 0; k < found.size(); ++k) EXPECT_TRUE(found[k].allclose(expected[k], 1e-5, 1e-6)) << i << ", " << k << "\n" << to_text(graph);
    }
  }
}

// The second attempt supports gradients in forward, but fails for another reason.
TEST(VerifyReplay, aRefusalNamesWhatStaysRefusedWhereGradientsAreOperators) {
  torch::nn::Linear layer(3, 3);
  const Forward forward = [&](const Tensors& x) {
    const torch::AutoGradMode gradients(true);
    const Tensor at = x[0].detach().clone().requires_grad_(true);
    const Tensor force = torch::autograd::grad({layer(at).tanh().square().sum()}, {at})[0];
    return Tensors{force + force.narrow(0, 0, (force.size(0) + 1) / 2).mean(0)};
  };
  const std::string message = testing::message_of<Error>([&] { captured(*layer, forward, {torch::randn({4, 3})}); });
  EXPECT_NE(message.find("aten::narrow"), std::string::npos) << message;
}

TEST(VerifyReplay, aParameterThatForwardChangesIsAfterwardsWhatItWas) {
  const Tensor weight = torch::ones({3}, torch::requires_grad());
  const Forward forward = [&](const Tensors& x) {
    {
      const torch::NoGradGuard no_gradients;
      Tensor(weight).mul_(0.9);
    }
    return Tensors{x[0] * weight.clone()};
  };
  const Graph graph = capture(forward, {{"weight", weight}}, {}, {torch::randn({4, 3})});
  EXPECT_TRUE(weight.equal(torch::ones({3})));
  EXPECT_EQ(std::ranges::count_if(graph.nodes, [](const Node& node) { return !node.changes.empty(); }), 1);
}

// A capture runs the module with other numbers in its parameters and buffers.
TEST(VerifyReplay, buffersThatShareMemoryAreAfterwardsWhatTheyWere) {
  torch::nn::Module module;
  const Tensor table = torch::arange(6, torch::kFloat).view({2, 3});
  const Tensor cosines = table[0];
  module.register_buffer("table", table);
  module.register_buffer("cosines", cosines);
  captured(module, [&](const Tensors& x) { return Tensors{x[0] * cosines + table[1]}; }, {torch::randn({4, 3})});
  EXPECT_TRUE(table.equal(torch::arange(6, torch::kFloat).view({2, 3}))) << table;
}

TEST(VerifyReplay, aBufferUnderTwoNamesIsOne) {
  torch::nn::Module module;
  const Tensor mask = torch::ones({3});
  module.register_buffer("first", mask);
  module.register_buffer("second", mask);
  const Graph graph = captured(module, [&](const Tensors& x) { return Tensors{x[0] * mask}; }, {torch::randn({4, 3})});
  EXPECT_EQ(std::ranges::count(graph.values, Value::Kind::buffer, &Value::kind), 1);
  EXPECT_EQ(graph.values[1].name, "first");
}

// as_strided reads memory that the preceding view does not show.
TEST(VerifyReplay, stridesOfANarrowedViewAreNotParted) {
  const Graph graph = captured(*torch::nn::Identity(),
                               [](const Tensors& x) {
                                 const Tensor y = x[0].tanh();
                                 const Tensor part = y.narrow(1, 0, 2);
                                 return Tensors{part.as_strided({x[0].size(0), 4}, {6, 1}).sin()};
                               },
                               {torch::randn({4, 6})});
  EXPECT_EQ(units_of(graph).front().size(), 3U) << to_text(graph);
}

}  // namespace verify_replay_test
}  // namespace tw::graph
