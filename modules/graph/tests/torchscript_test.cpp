// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/script.h>

#include <tw/base/error.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/forward.hpp>
#include <tw/graph/torchscript.hpp>

#include "graph_of.hpp"

namespace tw::graph {
namespace torchscript_test {

using at::Tensor;

/// Outputs and gradients of a replay are bitwise the module's.
void expect_replays(TorchScript& module, const Tensor& example, const Tensor& x) {
  const Graph graph = captured(module, forward_of(module), {example});
  const auto passed = [&](const Tensors& outputs) {
    Tensor sum = torch::zeros({});
    for (const Tensor& each : outputs) sum = sum + each.sin().sum();
    sum.backward();
    Tensors all = outputs;
    for (const Tensor& each : module.parameters()) all.push_back(each.grad().clone());
    module.zero_grad();
    return all;
  };
  const Tensors expected = passed(module.forward({x}));
  const Tensors found = passed(interpreter_of(graph, module).run({x}, {.rows = x.size(0)}));
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i << "\n" << to_text(graph);
}

torch::jit::Module with_weight(const char* forward) {
  torch::manual_seed(4);
  torch::jit::Module script("script");
  script.register_parameter("weight", torch::randn({3, 3}, torch::requires_grad()), false);
  script.register_buffer("shift", torch::randn({3}));
  script.define(forward);
  return script;
}

TEST(TorchScript, replaysToTheBit) {
  TorchScript module(with_weight(R"(
    def forward(self, x):
      y = torch.matmul(x, self.weight.t()) + self.shift
      for i in range(2):
        y = torch.tanh(y) * (i + 1)
      return y.view(x.size(0), -1)
  )"));
  expect_replays(module, torch::randn({4, 3}), torch::randn({7, 3}));
}

TEST(TorchScript, numbersOfElementsAreSizes) {
  TorchScript module(with_weight(R"(
    def forward(self, x):
      return torch.matmul(x.view(x.numel() // 3, 3), self.weight) + self.shift
  )"));
  expect_replays(module, torch::randn({4, 3}), torch::randn({7, 3}));
}

// After two runs of a module, TorchScript's optimiser merges operators into nodes without the operators' gradients.
TEST(TorchScript, doesNotDependOnWhatRanBefore) {
  torch::jit::Module script = with_weight(R"(
    def forward(self, x):
      y = torch.matmul(x, self.weight.t()) * 2 + self.shift
      return torch.sigmoid(torch.tanh(y) * y)
  )");
  const Tensor x = torch::randn({4, 3});
  for (int i = 0; i < 3; ++i) script.forward({x}).toTensor().sum().backward();
  (*script.parameters().begin()).mutable_grad() = Tensor();
  TorchScript module(script);
  expect_replays(module, x, torch::randn({7, 3}));
  const Forward as_it_is = [&](const Tensors& in) { return Tensors{script.forward({in[0]}).toTensor()}; };
  EXPECT_THROW(captured(module, as_it_is, {x}), Error) << "which would give parameters no gradients";
}

TEST(TorchScript, listsMayGrowAfterTheyWereUsed) {
  TorchScript module(with_weight(R"(
    def forward(self, x):
      features = [x]
      for i in range(3):
        features.append(torch.matmul(torch.cat(features, 1)[:, :3], self.weight) + self.shift)
      return torch.cat(features, 1)
  )"));
  expect_replays(module, torch::randn({4, 3}), torch::randn({7, 3}));
}

TEST(TorchScript, indicesMayBeListsWithNone) {
  TorchScript module(with_weight(R"(
    def forward(self, x, order: Optional[Tensor] = None):
      if order is None:
        order = torch.tensor([2, 0, 1])
      return torch.matmul(x, self.weight)[:, order] * self.shift[order]
  )"));
  expect_replays(module, torch::randn({4, 3}), torch::randn({7, 3}));
}

TEST(TorchScript, outputsMayBeTuplesListsAndDictionaries) {
  TorchScript module(with_weight(R"(
    def forward(self, x):
      y = torch.matmul(x, self.weight)
      return y, [y.sin(), x * y], {"cos": y.cos()}, self.shift * x
  )"));
  EXPECT_EQ(module.forward({torch::randn({2, 3})}).size(), 5U);
  expect_replays(module, torch::randn({4, 3}), torch::randn({7, 3}));
}

TEST(TorchScript, hasItsTensorsAndModes) {
  torch::jit::Module inner("inner");
  inner.register_parameter("w", torch::ones({3}, torch::requires_grad()), false);
  inner.register_attribute("training", c10::BoolType::get(), true);
  inner.define("def forward(self, x):\n  return torch.dropout(x * self.w, 0.5, self.training)\n");
  torch::jit::Module script("outer");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_module("inner", inner);
  script.define("def forward(self, x):\n  return self.inner.forward(x)\n");
  TorchScript module(script);
  ASSERT_TRUE(module.named_parameters().contains("inner.w"));
  EXPECT_TRUE(module.named_parameters()["inner.w"].is_same(inner.attr("w").toTensor())) << "the same tensor";
  module.eval();
  const Tensor x = torch::ones({2, 3});
  EXPECT_TRUE(module.forward({x})[0].equal(x));
  EXPECT_TRUE(script.is_training()) << "the one that was given stays as it is";
}

TEST(TorchScript, partsThatWereFrozenStayFrozen) {
  torch::jit::Module part("part");
  part.register_attribute("training", c10::BoolType::get(), true);
  part.define("def forward(self, x):\n  return torch.dropout(x, 0.5, self.training)\n");
  torch::jit::Module script("net");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_module("frozen", part.clone());
  script.register_module("trained", part);
  script.define("def forward(self, x):\n  return self.frozen.forward(x), self.trained.forward(x)\n");
  script.attr("frozen").toModule().eval();
  TorchScript module(script);
  const Tensor x = torch::ones({8});
  const ModeGraphs graphs = capture_modes(module, forward_of(module), {x});
  for (const Tensors& outputs : {module.forward({x}), interpreter_of(graphs.training, module).run({x}, {.rows = 8})}) {
    EXPECT_TRUE(outputs[0].equal(x));
    EXPECT_FALSE(outputs[1].equal(x));
  }
}

TEST(TorchScript, ofOneOutputReturnsNoOther) {
  TorchScript module(with_weight("def forward(self, x):\n  return x, x\n"));
  EXPECT_THROW(module.forward_one(torch::ones({3})), Error);
}

}  // namespace torchscript_test
}  // namespace tw::graph
