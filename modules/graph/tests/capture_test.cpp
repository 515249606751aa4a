// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <tw/base/error.hpp>
#include <tw/graph/capture.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/models/resnet.hpp>

namespace tw::graph {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

std::map<std::string, Tensor> tensors_of(const torch::nn::Module& module) {
  std::map<std::string, Tensor> all;
  for (const auto& each : module.named_parameters()) all[each.key()] = each.value();
  for (const auto& each : module.named_buffers()) all[each.key()] = each.value();
  return all;
}

Graph captured(const torch::nn::Module& module, const Forward& forward, const Tensors& example) {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  for (const auto& each : module.named_parameters()) parameters.push_back({each.key(), each.value()});
  for (const auto& each : module.named_buffers()) buffers.push_back({each.key(), each.value()});
  return capture(forward, without_aliases(parameters), buffers, example);
}

TEST(Capture, keepsWhatRanWithoutAutograd) {
  torch::nn::Linear teacher(3, 3);
  const Forward forward = [&](const Tensors& x) {
    Tensor target;
    {
      const torch::NoGradGuard no_gradients;
      target = teacher(x[0]);
    }
    return Tensors{x[0].tanh() - target};
  };
  const Graph graph = graph_from_json(to_json(captured(*teacher, forward, {torch::randn({4, 3})})));
  const auto all = tensors_of(*teacher);
  const Tensor x = torch::randn({5, 3}, torch::requires_grad());
  Interpreter(graph, [&](const std::string& name) { return all.at(name); }).run({x}, {.rows = 5})[0].sum().backward();
  EXPECT_FALSE(teacher->weight.grad().defined());
  EXPECT_TRUE(x.grad().allclose(1 - x.detach().tanh().square()));
}

// The outputs and all gradients of a replay, at another number of rows than the graph was captured at, are those of the module to the bit: the same
// operators run on the same numbers.
template <class Holder>
void expect_replays(Holder model, const Tensors& example, const Tensors& batch) {
  const Forward forward = [&](const Tensors& inputs) mutable {
    if constexpr (requires { model->forward(inputs[0], inputs[1]); }) {
      return Tensors{model->forward(inputs[0], inputs[1])};
    } else {
      return Tensors{model->forward(inputs[0])};
    }
  };
  const auto all = tensors_of(*model);
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : all) before[name] = tensor.detach().clone();
  const Graph graph = captured(*model, forward, example);
  for (const auto& [name, tensor] : all) EXPECT_TRUE(tensor.equal(before[name])) << name << " is changed by capture";
  for (const bool from_file : {false, true}) {
    const Graph read = from_file ? graph_from_json(to_json(graph)) : graph;
    EXPECT_EQ(read.hash(), graph.hash());
    EXPECT_EQ(read.nodes, graph.nodes);
    EXPECT_EQ(read.values, graph.values);
    const auto passes = [&](const std::function<Tensors()>& run) {
      Tensors results;
      {
        const torch::NoGradGuard no_gradients;
        for (const auto& [name, tensor] : all) tensor.copy_(before[name]);
      }
      model->zero_grad();
      const Tensor output = run()[0];
      output.square().sum().backward();
      results.push_back(output.detach().clone());
      for (const auto& [name, tensor] : all) {
        if (tensor.grad().defined()) results.push_back(tensor.grad().clone());
        results.push_back(tensor.detach().clone());  // running means change
      }
      return results;
    };
    const Interpreter interpreter(read, [&](const std::string& name) { return all.at(name); });
    const Tensors expected = passes([&] { return forward(batch); });
    const Tensors found = passes([&] { return interpreter.run(batch, {.rows = batch[0].size(0)}); });
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i << "\n" << to_text(graph);
  }
}

TEST(Capture, modulesOfTheLibraryReplayToTheBit) {
  torch::manual_seed(1);
  for (const bool training : {true, false}) {
    models::LeNet lenet;
    lenet->train(training);
    expect_replays(lenet, {torch::randn({4, 1, 28, 28})}, {torch::randn({7, 1, 28, 28})});
    models::Mlp mlp(std::vector<int64_t>{12, 9, 5, 3});
    mlp->train(training);
    expect_replays(mlp, {torch::randn({4, 12})}, {torch::randn({7, 12})});
    models::Gpt gpt(models::GptOptions{.vocabulary = 9, .context = 6, .width = 8, .heads = 2, .blocks = 2});
    gpt->train(training);
    expect_replays(gpt, {torch::randint(9, {4, 6})}, {torch::randint(9, {7, 6})});
    models::ResNet resnet;
    resnet->train(training);
    expect_replays(resnet, {torch::randn({4, 1, 8, 8})}, {torch::randn({7, 1, 8, 8})});
  }
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 3).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(3));
    layer_norm = register_module("layer_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({12})));
    embedding = register_module("embedding", torch::nn::Embedding(11, 12));
    head = register_module("head", torch::nn::Linear(12, 5));
    mask = register_buffer("mask", torch::ones({4, 4}).tril());
  }
  Tensor forward(const Tensor& x, const Tensor& tokens) {
    const Tensor image = norm(conv(x)).relu_().flatten(1);  // [n, 12]
    Tensor words = embedding(tokens);                       // [n, 4, 12]
    const std::vector<Tensor> parts = words.chunk(3, -1);   // of [n, 4, 4]
    Tensor scores = parts[0].matmul(parts[1].transpose(1, 2)).masked_fill(mask == 0, -INFINITY).softmax(-1);
    words = torch::cat({scores.matmul(parts[2]), parts[0], parts[1]}, -1);
    words = words.view({tokens.size(0) * 4, 12}) + 0.5;
    words = layer_norm(words).view({tokens.size(0), 4, 12}).mean(1);
    words = words + image * 2;
    words.index_put_({torch::indexing::Slice(), 0}, image.index({torch::indexing::Slice(), 1}));
    return head(words).add_(1);
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::LayerNorm layer_norm{nullptr};
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear head{nullptr};
  Tensor mask;
};
TORCH_MODULE(Net);

// A TorchScript module, as Python exports it, is captured by running it.
TEST(Capture, torchScriptReplaysToTheBit) {
  torch::manual_seed(4);
  torch::jit::Module script("script");
  script.register_parameter("weight", torch::randn({5, 3}, torch::requires_grad()), false);
  script.register_buffer("shift", torch::randn({5}));
  script.define(R"(
    def forward(self, x):
      y = torch.matmul(x, self.weight.t()) + self.shift
      for i in range(2):
        y = torch.tanh(y) * (i + 1)
      return y.view(x.size(0), -1)
  )");
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  std::map<std::string, Tensor> all;
  for (const auto& each : script.named_parameters()) parameters.push_back({each.name, all[each.name] = each.value});
  for (const auto& each : script.named_buffers()) buffers.push_back({each.name, all[each.name] = each.value});
  const Forward forward = [&](const Tensors& x) { return Tensors{script.forward({x[0]}).toTensor()}; };
  const Graph graph = capture(forward, parameters, buffers, {torch::randn({4, 3})});
  const Tensor x = torch::randn({7, 3});
  const Tensor expected = forward({x})[0];
  expected.sum().backward();
  const Tensor gradient = all["weight"].grad().clone();
  all["weight"].mutable_grad() = Tensor();
  const Tensor found = Interpreter(graph, [&](const std::string& name) { return all.at(name); }).run({x}, {.rows = 7})[0];
  found.sum().backward();
  EXPECT_TRUE(found.equal(expected)) << to_text(graph);
  EXPECT_TRUE(all["weight"].grad().equal(gradient));
}

TEST(Capture, listsOptionalsInPlaceAndBuffersReplayToTheBit) {
  torch::manual_seed(2);
  for (const bool training : {true, false}) {
    Net net;
    net->train(training);
    expect_replays(net, {torch::randn({3, 2, 4, 4}), torch::randint(11, {3, 4})}, {torch::randn({5, 2, 4, 4}), torch::randint(11, {5, 4})});
  }
}

// E[mask] and the row dependence: the masks of rows are those of any division, and of another pass others.
TEST(Interpreter, dropoutDependsOnPassAndRow) {
  torch::nn::Dropout dropout(0.25);
  const Graph graph = captured(*dropout, [&](const Tensors& x) { return Tensors{dropout(x[0])}; }, {torch::ones({2, 100})});
  const Interpreter interpreter(graph, [](const std::string&) { return Tensor(); });
  const Tensor x = torch::ones({40, 100});
  const Tensor whole = interpreter.run({x}, {.rows = 40, .key = 7})[0];
  EXPECT_TRUE(whole.slice(0, 10, 30).equal(interpreter.run({x.slice(0, 10, 30)}, {.rows = 20, .key = 7, .first = 10})[0]));
  EXPECT_FALSE(whole.equal(interpreter.run({x}, {.rows = 40, .key = 8})[0]));
  const double zeros = (whole == 0).to(torch::kDouble).mean().item<double>();
  EXPECT_NEAR(zeros, 0.25, 5 * std::sqrt(0.25 * 0.75 / 4000));  // five standard deviations of 4000 draws
  EXPECT_TRUE(((whole == 0) | ((whole - 4.0 / 3).abs() < 1e-6)).all().item<bool>());
}

TEST(Interpreter, leavesItsInputsAsTheyAre) {
  const Graph graph = captured(*torch::nn::Identity(), [](const Tensors& x) { return Tensors{x[0].mul_(2)}; }, {torch::ones({2, 3})});
  const Tensor x = torch::ones({5, 3});
  EXPECT_TRUE(Interpreter(graph, [](const std::string&) { return Tensor(); }).run({x}, {.rows = 5})[0].equal(x * 2));
  EXPECT_TRUE(x.equal(torch::ones({5, 3})));
}

void expect_refused(const std::string& message, const Forward& forward, const std::vector<NamedTensor>& parameters = {}) {
  try {
    capture(forward, parameters, {}, {torch::randn({4, 3})});
    ADD_FAILURE() << "captured; expected: " << message;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Capture, refusesByName) {
  expect_refused("operator 1, aten::item: its result is a number",
                 [](const Tensors& x) { return Tensors{x[0].sum().item<double>() > 0 ? x[0] : -x[0]}; });
  const Tensor stray = torch::randn({3}, torch::requires_grad());
  expect_refused("a tensor of shape [3] requires a gradient and is no parameter", [&](const Tensors& x) { return Tensors{x[0] * stray}; });
  expect_refused("aten::bernoulli", [](const Tensors& x) { return Tensors{torch::bernoulli(x[0].sigmoid())}; });
  expect_refused("aten::index.Tensor: the shape of its result depends on data",
                 [](const Tensors& x) { return Tensors{x[0].index({x[0].select(1, 0) > -9})}; });
  expect_refused("aten::nonzero: the shape of its result depends on data", [](const Tensors& x) { return Tensors{x[0].nonzero() * x[0].sum()}; });
  expect_refused("came out of another one without an operator", [](const Tensors& x) { return Tensors{x[0] * x[0].amax().data()}; });
  expect_refused("filled by no operator", [](const Tensors& x) { return Tensors{x[0] * torch::tensor(std::vector<double>{1, 2, 3})}; });
  const Tensor outside = torch::zeros({3});
  expect_refused("neither parameter nor buffer", [&](const Tensors& x) {
    outside.add_(1);
    return Tensors{x[0] * outside};
  });
  expect_refused("are not the rows", [](const Tensors& x) { return Tensors{torch::dropout(x[0].t(), 0.5, true).t()}; });
  expect_refused("an output of the module does not depend", [](const Tensors&) { return Tensors{torch::ones({3})}; });
  expect_refused("the module calls 1 operators for 4 rows and 2 for 8",
                 [](const Tensors& x) { return Tensors{x[0].size(0) > 4 ? x[0].neg().neg() : x[0].neg()}; });
}

}  // namespace
}  // namespace tw::graph
