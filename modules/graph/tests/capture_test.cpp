// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/graph/forward.hpp>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/models/resnet.hpp>

#include "graph_of.hpp"

namespace tw::graph {
namespace capture_test {

using at::Tensor;

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

// A replay for a different number of rows than captured gives bitwise the module's outputs and gradients: the same operators run on the same numbers.
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

TEST(Capture, normsWithoutRunningStatisticsReplayToTheBit) {
  for (const bool training : {true, false}) {
    torch::nn::InstanceNorm1d instance(torch::nn::InstanceNorm1dOptions(3).affine(true));
    torch::nn::BatchNorm1d batch(torch::nn::BatchNorm1dOptions(3).track_running_stats(false));
    instance->train(training);
    batch->train(training);
    expect_replays(instance, {torch::randn({4, 3, 5})}, {torch::randn({7, 3, 5})});
    expect_replays(batch, {torch::randn({4, 3, 5})}, {torch::randn({7, 3, 5})});
  }
}

TEST(Capture, listsOptionalsInPlaceAndBuffersReplayToTheBit) {
  torch::manual_seed(2);
  for (const bool training : {true, false}) {
    Net net;
    net->train(training);
    expect_replays(net, {torch::randn({3, 2, 4, 4}), torch::randint(11, {3, 4})}, {torch::randn({5, 2, 4, 4}), torch::randint(11, {5, 4})});
  }
}

/// Compares a replay, without parameters, for a different number of rows than captured.
void expect_repeats(const std::function<Tensor(const Tensor&)>& forward) {
  const Graph graph = captured(*torch::nn::Identity(), [&](const Tensors& x) { return Tensors{forward(x[0])}; }, {torch::randn({4, 3, 6})});
  const Tensor x = torch::randn({7, 3, 6});
  EXPECT_TRUE(interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = 7})[0].equal(forward(x))) << to_text(graph);
}

TEST(Capture, keepsWhatIsWrittenIntoWhatWasMadeBefore) {
  using torch::indexing::Slice;
  expect_repeats([](const Tensor& x) {
    const Tensor out = torch::zeros({x.size(0), 3, 6});
    for (int64_t t = 0; t < 3; ++t) out.select(1, t).copy_(x.select(1, t).tanh());
    return out + x;
  });
  expect_repeats([](const Tensor& x) {  // depends on its inputs only through what is written to it
    Tensor out = torch::zeros({x.size(0), 3, 6});
    for (int64_t t = 0; t < 3; ++t) out.index_put_({Slice(), t}, x.index({Slice(), 2 - t}));
    return out;
  });
}

TEST(Capture, takesFactoriesAndConstants) {
  expect_repeats([](const Tensor& x) { return torch::zeros_like(x) + torch::ones_like(x) * x + torch::full_like(x, 0.5); });
  expect_repeats([](const Tensor& x) { return torch::empty_like(x).copy_(x.sin()) * 2; });
  expect_repeats([](const Tensor& x) { return x * torch::tensor(std::vector<float>{1, 2, 3, 4, 5, 6}); });
}

TEST(Capture, takesSizesThatAreTensorsAsSizes) {
  expect_repeats([](const Tensor& x) {
    const auto rows = (torch::scalar_tensor(x.size(0), torch::kLong) * 3).floor_divide(3).item<int64_t>();
    return x.view({rows, 18}).tanh();
  });
}

TEST(Capture, comparesATensorWithItselfOnce) {
  const auto forward = [](const Tensors& x) { return Tensors{x[0].equal(x[0]) ? x[0].sin() : x[0].cos()}; };
  const Graph graph = captured(*torch::nn::Identity(), forward, {torch::randn({4, 3})});
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].op, "aten::sin");
}

TEST(Capture, constantsAreInTheJson) {
  const Tensor shift = torch::arange(3.0);
  const Tensor scale = torch::tensor({{0.5F, -INFINITY}});
  const Tensor order = torch::tensor({2, 0});
  const Tensor mask = torch::tensor(true);
  const auto forward = [&](const Tensors& x) { return Tensors{(x[0] + shift).index_select(1, order) * scale * mask}; };
  const Graph graph = graph_from_json(to_json(captured(*torch::nn::Identity(), forward, {torch::rand({4, 3})})));
  EXPECT_EQ(graph.constants.size(), 4U);
  const Tensor x = torch::rand({5, 3}) + 1;
  EXPECT_TRUE(interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = 5})[0].equal(forward({x})[0]));
}

TEST(Capture, guardsAnswersThatDependOnData) {
  const auto forward = [](const Tensors& x) {
    TORCH_CHECK(torch::isfinite(x[0]).all().item<bool>(), "not finite");
    return Tensors{x[0].sin()};
  };
  const Graph graph = graph_from_json(to_json(captured(*torch::nn::Identity(), forward, {torch::randn({4, 3})})));
  const Interpreter interpreter = interpreter_of(graph, *torch::nn::Identity());
  const Tensor x = torch::randn({5, 3});
  EXPECT_TRUE(interpreter.run({x}, {.rows = 5})[0].equal(x.sin()));
  x.select(0, 2).fill_(NAN);
  EXPECT_THROW(
      {
        try {
          interpreter.run({x}, {.rows = 5});
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("it returns false where it returned true"), std::string::npos) << error.what();
          throw;
        }
      },
      Error);
}

/// Inactive dropout leaves everything comparable.
TEST(Capture, readingPastOperatorsIsSeenBesideDropout) {
  torch::nn::Dropout dropout(0.5);
  dropout->eval();
  const auto forward = [&](const Tensors& x) {
    const Tensor h = dropout(x[0]);
    return Tensors{h + h.detach().data_ptr<float>()[0]};
  };
  EXPECT_THROW(captured(*dropout, forward, {torch::randn({4, 3})}), Error);
}

/// Small or equal rows can be distinguished; a single row cannot.
TEST(Capture, rowsAreFoundWhereTheyLie) {
  torch::nn::Dropout dropout(0.5);
  const auto forward = [&](const Tensors& x) { return Tensors{dropout(x[0].transpose(0, 1).reshape({-1, 3})).reshape({2, -1, 3}).transpose(0, 1)}; };
  for (const Tensor& example : {1e-6 * torch::randn({4, 2, 3}), torch::ones({4, 2, 3}), torch::zeros({4, 2, 3})}) {
    const Graph graph = captured(*dropout, forward, {example});
    const auto drawn = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.op == "aten::dropout"; });
    ASSERT_NE(drawn, graph.nodes.end());
    ASSERT_TRUE(drawn->rows.has_value());
    EXPECT_EQ(drawn->rows->outer, 2);
  }
  EXPECT_THROW(captured(*dropout, forward, {torch::randn({1, 2, 3})}), Error);
}

// For the example, dropout sees only the ReLU's zeros, computed by a batch norm from all rows together.
TEST(Capture, rowsAreFoundBehindARectifierThatIsOff) {
  torch::nn::BatchNorm1d norm(3);
  torch::nn::init::constant_(norm->weight, 0.1);
  torch::nn::init::constant_(norm->bias, -5);
  const auto forward = [&](const Tensors& x) { return Tensors{torch::dropout(norm(x[0]).transpose(1, 2).relu().reshape({-1, 3}), 0.5, true)}; };
  const Graph graph = captured(*norm, forward, {torch::randn({4, 3, 2})});
  const auto drawn = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.op == "aten::dropout"; });
  ASSERT_NE(drawn, graph.nodes.end());
  EXPECT_EQ(drawn->rows, (RowPlace{.dimension = 0, .outer = 1, .inner = 2}));
}

// Their blocks compare query, key and value, which are one tensor.
TEST(Capture, transformersReplayToTheBit) {
  torch::manual_seed(5);
  torch::nn::TransformerEncoderLayer encoder(torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(12).dropout(0.0));
  const Forward forward = [&](const Tensors& x) { return Tensors{encoder(x[0].transpose(0, 1)).transpose(0, 1)}; };
  const Graph graph = captured(*encoder, forward, {torch::randn({4, 3, 8})});
  const Tensor x = torch::randn({5, 3, 8});
  EXPECT_TRUE(interpreter_of(graph, *encoder).run({x}, {.rows = 5})[0].equal(forward({x})[0]));
}

struct Pairs : torch::nn::Module {
  std::tuple<Tensor, std::map<std::string, Tensor>> forward(const Tensor& x, const Tensor& y) { return {x + y, {{"b", x * y}, {"a", x - y}}}; }
};

TEST(ForwardOf, takesAndGivesTensorsInManyWays) {
  const Tensor x = torch::randn({2, 3});
  torch::nn::Sequential net{torch::nn::Tanh()};
  EXPECT_TRUE(forward_of(*net)({x})[0].equal(x.tanh()));
  torch::nn::LSTM lstm(3, 4);
  EXPECT_EQ(forward_of(*lstm)({torch::randn({5, 2, 3})}).size(), 3U) << "outputs, and a pair of states";
  Pairs pairs;
  const Tensors found = forward_of(pairs)({x, x * 2});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found[1].equal(x - x * 2)) << "a dictionary's by their names";
  EXPECT_THROW(forward_of(pairs)({x}), ContractError);
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

/// Its gradient differs from its operator's.
struct StraightThrough : torch::autograd::Function<StraightThrough> {
  static Tensor forward(torch::autograd::AutogradContext* /*context*/, const Tensor& x) { return x.sign(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/, torch::autograd::variable_list gradients) {
    return gradients;
  }
};

TEST(Capture, refusesWhatOperatorsDoNotShow) {
  const std::vector<NamedTensor> weight{{"w", torch::randn({3}, torch::requires_grad())}};
  const Tensor& w = weight[0].tensor;
  expect_refused("a custom gradient function", [&](const Tensors& x) { return Tensors{StraightThrough::apply(x[0] * w)}; }, weight);
  expect_refused(
      "a hook at the gradient",
      [&](const Tensors& x) {
        const Tensor y = x[0] * w;
        y.register_hook([](const Tensor& gradient) { return gradient * 2; });
        return Tensors{y.sin()};
      },
      weight);
  expect_refused("reads or writes numbers without operators", [](const Tensors& x) {
    const Tensor out = torch::zeros_like(x[0]);
    for (int64_t i = 0; i < x[0].size(0); ++i) out.accessor<float, 2>()[i][0] = x[0].accessor<float, 2>()[i][1];
    return Tensors{out + x[0]};
  });
  expect_refused("reads or writes numbers without operators", [](const Tensors& x) { return Tensors{x[0] * x[0].const_data_ptr<float>()[0]}; });
}

// A function without rows: numbers, matrices, a tensor changed in place, and an unused parameter.
TEST(CaptureCall, repeatsAFunctionOfTensors) {
  const Tensor w = torch::randn({3, 3}, torch::requires_grad());
  const Tensor idle = torch::randn({2}, torch::requires_grad());
  int calls = 0;
  const Forward function = [&](const Tensors& x) {
    ++calls;
    return Tensors{x[1].matmul(w).mul_(x[0]), torch::ones({2}), w.t()};
  };
  const Tensors example{torch::tensor(2.0F), torch::randn({5, 3})};
  const Graph graph = capture_call(function, {{"idle", idle}, {"w", w}}, example);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(graph.inputs, (std::vector<int>{0, 1}));
  EXPECT_EQ(graph.values.at(2).name, "idle");
  EXPECT_EQ(graph.values.at(3).name, "w");
  const auto expect_repeated = [&](const Tensors& outputs, const Tensor& scale, const Tensor& x, const Tensor& of_w) {
    EXPECT_TRUE(outputs.at(0).equal(x.matmul(of_w) * scale));
    EXPECT_TRUE(outputs.at(1).equal(torch::ones({2})));
    EXPECT_TRUE(outputs.at(2).equal(of_w.t()));
  };
  const Tensor scale = torch::tensor(-3.0F);
  const Tensor x = torch::randn({5, 3});
  expect_repeated(Interpreter(graph, [&](const std::string& name) { return name == "w" ? w : idle; }).run({scale, x}, {}), scale, x, w);
  // A parameter may be passed as an input instead of being bound.
  std::vector<int> nodes(graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  const Tensor other = torch::randn({3, 3});
  expect_repeated(Interpreter(graph, nodes, {0, 1, 3}, graph.outputs, {}).run({scale, x, other}, {}), scale, x, other);
}

TEST(CaptureCall, refusesByName) {
  const auto refuse = [](const Forward& function) { capture_call(function, {}, {torch::randn({4, 3})}); };
  EXPECT_THROW(refuse([](const Tensors& x) { return Tensors{x[0].sum().item<double>() > 0 ? x[0] : -x[0]}; }), Error);
  const Tensor stray = torch::randn({3}, torch::requires_grad());
  EXPECT_THROW(refuse([&](const Tensors& x) { return Tensors{x[0] * stray}; }), Error);
}

TEST(Capture, refusesByName) {
  expect_refused("operator 1, aten::item: its result is a number",
                 [](const Tensors& x) { return Tensors{x[0].sum().item<double>() > 0 ? x[0] : -x[0]}; });
  const Tensor stray = torch::randn({3}, torch::requires_grad());
  expect_refused("a tensor of shape [3] requires a gradient, but is not a parameter", [&](const Tensors& x) { return Tensors{x[0] * stray}; });
  expect_refused("aten::multinomial: it draws random numbers that a graph cannot repeat",
                 [](const Tensors& x) { return Tensors{x[0] * torch::multinomial(x[0].sigmoid(), 1)}; });
  expect_refused("aten::index.Tensor: the shape of its result depends on data",
                 [](const Tensors& x) { return Tensors{x[0].index({x[0].select(1, 0) > -9})}; });
  expect_refused("aten::nonzero: the shape of its result depends on data", [](const Tensors& x) { return Tensors{x[0].nonzero() * x[0].sum()}; });
  expect_refused("was made from another tensor without an operator", [](const Tensors& x) { return Tensors{x[0] * x[0].amax().data()}; });
  const Tensor outside = torch::zeros({3});
  expect_refused("neither parameter nor buffer", [&](const Tensors& x) {
    outside.add_(1);
    return Tensors{x[0] * outside};
  });
  expect_refused("cannot be distinguished",  // pairs of rows
                 [](const Tensors& x) { return Tensors{torch::dropout(x[0].matmul(x[0].t()), 0.5, true).sum(1)}; });
  expect_refused("an output of the module does not depend", [](const Tensors&) { return Tensors{torch::ones({3})}; });
  expect_refused("the module calls 1 operators for 4 rows and 2 for 8",
                 [](const Tensors& x) { return Tensors{x[0].size(0) > 4 ? x[0].neg().neg() : x[0].neg()}; });
}

}  // namespace capture_test
}  // namespace tw::graph
