// SPDX-License-Identifier: Apache-2.0
// Graphs of parts: what is divided, and what is sent. Whether they compute the same is tested on ranks, in tests/composition.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/forward.hpp>
#include <tw/splits/split_graphs.hpp>

namespace tw::splits {
namespace split_graphs_test {

using at::Tensor;

template <class Holder>
SplitGraphs divided(Holder& module, const Tensor& example, const SplitOptions& options) {
  std::map<std::string, Tensor> tensors;
  for (const auto& all : {module->named_parameters(), module->named_buffers()}) {
    for (const auto& each : all) tensors[each.key()] = each.value();
  }
  const graph::ModeGraphs whole = graph::capture_modes(*module, graph::forward_of(*module), {example});
  return split_graphs(whole, [&](const std::string& name) { return tensors.at(name); }, {example}, options);
}

std::vector<std::string> communications(const graph::Graph& graph) {
  std::vector<std::string> found;
  for (const graph::Node& each : graph.nodes) {
    if (each.op.starts_with("torchweave::")) found.push_back(each.op.substr(12));
  }
  return found;
}

using Names = std::vector<std::string>;
using Slices = std::map<std::string, int>;

/// Large enough for any link but a slow one.
constexpr SplitOptions cheap{.ranks = 2, .latency_s = 1e-9, .bytes_per_second = 1e15};

torch::nn::Sequential mlp(int64_t width) {
  return torch::nn::Sequential(torch::nn::Linear(width, 4 * width), torch::nn::GELU(), torch::nn::Linear(4 * width, width));
}

TEST(SplitGraphs, DividesAnMlpAsMegatronDoes) {
  auto module = mlp(32);
  const SplitGraphs made = divided(module, torch::randn({32, 32}), cheap);
  EXPECT_EQ(made.slices, (Slices{{"0.bias", 0}, {"0.weight", 0}, {"2.weight", 1}})) << made.explanation;
  Names sent = communications(made.graphs.training);
  std::erase(sent, "keep_on_first_rank");  // of the second bias: nothing is sent
  EXPECT_EQ(sent, (Names{"reduce_from_ranks"})) << "the input of the first layer has no cotangent\n" << made.explanation;
}

TEST(SplitGraphs, ConnectsEqualOperatorsToTheirOwnTensors) {
  torch::nn::Sequential module(torch::nn::Linear(8, 8), torch::nn::Tanh(), torch::nn::Linear(8, 8), torch::nn::Tanh(), torch::nn::Linear(8, 8));
  const SplitGraphs made = divided(module, torch::randn({8, 8}), {.ranks = 2, .goal = SplitGoal::least_memory});
  const std::string text = graph::to_text(made.graphs.training);
  for (const char* name : {"0.weight", "2.weight", "4.weight"}) {
    EXPECT_NE(text.find(concat("(", name)), std::string::npos) << name << " is not used\n" << text;
  }
}

// In C++, a linear layer of three dimensions adds its bias in place.
TEST(SplitGraphs, DividesOperatorsInPlace) {
  auto module = torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})), torch::nn::Linear(32, 128), torch::nn::ReLU(),
                                      torch::nn::Linear(128, 32));
  const SplitGraphs made = divided(module, torch::randn({4, 6, 32}), cheap);
  EXPECT_EQ(made.slices.contains("1.weight"), true) << made.explanation;
  EXPECT_EQ(made.slices.contains("3.weight"), true) << made.explanation;
}

TEST(SplitGraphs, DividesNothingThatDoesNotPay) {
  auto module = mlp(16);
  const SplitGraphs made = divided(module, torch::randn({8, 16}), {.ranks = 2, .latency_s = 10, .bytes_per_second = 1});
  EXPECT_TRUE(made.slices.empty()) << made.explanation;
  EXPECT_TRUE(communications(made.graphs.training).empty()) << made.explanation;
}

TEST(SplitGraphs, KeepsWholeWhatRanksDoNotDivide) {
  auto module = mlp(5);
  const SplitGraphs made = divided(module, torch::randn({8, 5}), {.ranks = 3, .goal = SplitGoal::least_memory});
  EXPECT_TRUE(made.slices.empty()) << made.explanation;
}

TEST(SplitGraphs, NeedsLeastMemoryIfAsked) {
  auto module = mlp(16);
  const SplitGraphs made =
      divided(module, torch::randn({8, 16}), {.ranks = 4, .goal = SplitGoal::least_memory, .latency_s = 1, .bytes_per_second = 1});
  for (const char* name : {"0.weight", "0.bias", "2.weight"}) EXPECT_TRUE(made.slices.contains(name)) << name << '\n' << made.explanation;
}

TEST(SplitGraphs, LeavesTheModuleAsItIs) {
  torch::nn::Sequential module(torch::nn::Linear(8, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.5), torch::nn::Linear(8, 8));
  const Tensor mean = module->buffers()[0].clone();
  const Tensor weight = module->parameters()[0].clone();
  const SplitGraphs made = divided(module, torch::randn({8, 8}), cheap);
  EXPECT_TRUE(module->buffers()[0].equal(mean));
  EXPECT_TRUE(module->parameters()[0].equal(weight));
  EXPECT_NE(made.explanation.find("it draws random numbers"), std::string::npos) << made.explanation;
}

}  // namespace split_graphs_test
}  // namespace tw::splits
