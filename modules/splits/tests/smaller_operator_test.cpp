// SPDX-License-Identifier: Apache-2.0
// Operators with smaller sizes: which sizes are replaced, and that experiments with them find the same splits.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <tw/graph/capture.hpp>

#include "discovery.hpp"
#include "smaller_operator.hpp"

namespace tw::splits {
namespace smaller_operator_test {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;
using Sizes = std::map<int64_t, int64_t>;

/// The only operator that a function calls.
struct Alone {
  graph::Graph graph;
  Tensors inputs;

  Alone(const Function& function, const Tensors& given)
      : graph(graph::capture_call([&](const Tensors& in) { return Tensors{function(in)}; }, {}, given)) {
    EXPECT_EQ(graph.nodes.size(), 1U) << graph::to_text(graph);
    for (const int value : graph.nodes[0].inputs())
      inputs.push_back(given.at(static_cast<size_t>(std::ranges::find(graph.inputs, value) - graph.inputs.begin())));
  }
  Subject subject() const { return {.graph = graph, .node = 0, .rows = 1, .inputs = inputs}; }
};

Sizes replaced(const Function& function, const Tensors& inputs, int ranks = 2, const GroupCounts& groups = {}) {
  const Alone alone(function, inputs);
  const auto smaller = smaller_operator(alone.subject(), ranks, groups);
  return smaller ? smaller->replaced : Sizes();
}

Tensor product(const Tensors& in) { return torch::mm(in[0], in[1]); }

TEST(SmallerOperator, ReplacesSizesThatMeetByTheSameOnes) {
  const Tensors inputs{torch::randn({40, 64}), torch::randn({64, 96})};
  EXPECT_EQ(replaced(product, inputs), (Sizes{{96, 8}, {64, 10}, {40, 12}}));
  EXPECT_EQ(replaced(product, inputs, 2, {{96, {3}}}), (Sizes{{96, 12}, {64, 8}, {40, 10}})) << "divisible in three groups";
  EXPECT_EQ(replaced(product, {torch::randn({4, 101}), torch::randn({101, 6})}), (Sizes{{101, 9}})) << "not divisible either";
}

TEST(SmallerOperator, KeepsSizesThatOthersFollowFrom) {
  EXPECT_EQ(replaced([](const Tensors& in) { return in[0].view({2, 50, 4, 16}); }, {torch::randn({2, 50, 64})}), (Sizes{{50, 8}})) << "64 = 4 * 16";
  EXPECT_EQ(replaced([](const Tensors& in) { return in[0].slice(1, 40, 80); }, {torch::randn({2, 120})}), Sizes()) << "80 is no size";
}

TEST(SmallerOperator, KeepsIndicesWithinATable) {
  const Tensor indices = torch::tensor({70, 3, 99}, torch::kLong);
  EXPECT_EQ(replaced([](const Tensors& in) { return torch::embedding(in[0], in[1]); }, {torch::randn({100, 40}), indices}),
            (Sizes{{100, 8}, {40, 10}}));
}

TEST(SmallerOperator, HasTheSameSplits) {
  const std::vector<std::pair<Function, Tensors>> operators{
      {product, {torch::randn({40, 64}), torch::randn({64, 96})}},
      {[](const Tensors& in) { return torch::layer_norm(in[0], {64}, in[1], in[2]); },
       {torch::randn({2, 40, 64}), torch::randn({64}), torch::randn({64})}},
      {[](const Tensors& in) { return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0, true); },
       {torch::randn({2, 4, 40, 32}), torch::randn({2, 4, 40, 32}), torch::randn({2, 4, 40, 32})}},
      {[](const Tensors& in) { return in[0].masked_fill(in[1], std::numeric_limits<double>::quiet_NaN()); },
       {torch::randn({40, 64}), torch::rand({40, 64}) < 0.5}},
  };
  for (const auto& [function, inputs] : operators) {
    const Alone alone(function, inputs);
    const GroupCounts groups{{64, {4}}};
    const auto smaller = smaller_operator(alone.subject(), 2, groups);
    ASSERT_TRUE(smaller.has_value()) << graph::to_text(alone.graph);
    EXPECT_EQ(splits_of(smaller->subject(1), 2, smaller->groups).splits, splits_of(alone.subject(), 2, groups).splits) << graph::to_text(alone.graph);
  }
}

TEST(SmallerOperator, IsNotBelievedWhereItsOwnSizesRefuteIt) {
  const Alone alone(product, {torch::randn({40, 64}), torch::randn({64, 96})});
  const auto no_parameters = [](const std::string&) { return Tensor(); };
  Discovery discover(2, /*is_timed=*/false);
  const Discovery::Found found = discover(alone.graph, no_parameters, alone.inputs);
  for (int index = 0; index < static_cast<int>(found.splits[0].size()); ++index) EXPECT_TRUE(discover.confirm(alone.graph, found, {index}));

  Discovery again(2, /*is_timed=*/false);
  Discovery::Found wrong = again(alone.graph, no_parameters, alone.inputs);
  wrong.splits[0][0].outputs = {Placement::split(0)};
  EXPECT_FALSE(again.confirm(alone.graph, wrong, {0}));
  EXPECT_TRUE(again.confirm(alone.graph, wrong, {0})) << "known by its own sizes now";
  EXPECT_EQ(again(alone.graph, no_parameters, alone.inputs).splits, found.splits);
}

}  // namespace smaller_operator_test
}  // namespace tw::splits
