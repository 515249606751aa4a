// SPDX-License-Identifier: Apache-2.0
// The choice of splits, against all choices.
#include "choice.hpp"

#include <gtest/gtest.h>

#include <tw/base/random.hpp>

#include "forms.hpp"

namespace tw::splits {
namespace choice_test {

using graph::Graph;
using graph::Ref;
using graph::Value;
using Kind = Conversion::Kind;

/// A graph of operators that take one or two earlier values, some of them parameters; and random splits.
struct RandomProblem {
  Graph graph;
  ChoiceProblem problem{.graph = graph};

  explicit RandomProblem(uint64_t seed) {
    CounterRng random(seed, 3);
    const auto add = [&](Value::Kind kind, const std::string& name) {
      const auto storage = static_cast<int64_t>(graph.values.size());
      graph.values.push_back({.kind = kind, .name = name, .sizes = {{8}, {8}}, .order = {0, 1}, .storage = storage, .of_batch = true});
      return static_cast<int>(storage);
    };
    graph.inputs = {add(Value::Kind::input, "")};
    add(Value::Kind::parameter, "a");
    add(Value::Kind::parameter, "b");
    const std::vector<Placement> placements{Placement(), Placement::split(0), Placement::split(1), Placement::partial()};
    for (int i = 0; i < 5; ++i) {
      graph::Node node;
      node.op = "aten::add";
      const uint64_t inputs = 1 + random.below(2);
      const auto known = static_cast<uint64_t>(graph.values.size());
      for (uint64_t each = 0; each < inputs; ++each) node.arguments.emplace_back(Ref{static_cast<int>(random.below(known))});
      node.outputs = {add(Value::Kind::computed, "")};
      problem.splits.emplace_back();
      for (uint64_t split = 0; split < 1 + random.below(3); ++split) {
        OperatorSplit made;
        for (uint64_t each = 0; each < inputs; ++each) {
          made.inputs.push_back(placements[random.below(4)]);
          made.has_partial_cotangent.push_back(made.inputs.back().is_whole() && random.below(2) == 1);
        }
        made.outputs = {placements[random.below(4)]};
        problem.splits.back().push_back(std::move(made));
      }
      problem.seconds.push_back(1e-7 * static_cast<double>(1 + random.below(100)));
      graph.nodes.push_back(std::move(node));
    }
    graph.outputs = {static_cast<int>(graph.values.size()) - 1};
  }
};

TEST(Choice, IsTheBestOfAllChoices) {
  int divided = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomProblem random(seed);
    for (const SplitGoal goal : {SplitGoal::fastest, SplitGoal::least_memory}) {
      const SplitOptions options{.ranks = 2, .goal = goal, .latency_s = 1e-7 * static_cast<double>(seed % 5), .bytes_per_second = 4e9};
      const Choice chosen = choose(random.problem, options);
      EXPECT_EQ(cost_of(random.problem, chosen.split_of_node, options), chosen.cost) << seed;
      SplitCost best = chosen.cost;
      std::vector<int> all(random.problem.splits.size(), -1);
      for (bool more = true; more;) {
        best = std::min(best, cost_of(random.problem, all, options));
        more = false;
        for (size_t node = 0; node < all.size() && !more; ++node) {
          more = ++all[node] < static_cast<int>(random.problem.splits[node].size());
          if (!more) all[node] = -1;
        }
      }
      EXPECT_LE(chosen.cost.first, best.first * (1 + 1e-12)) << seed;
      divided += std::ranges::any_of(chosen.split_of_node, [](int split) { return split >= 0; }) ? 1 : 0;
    }
  }
  EXPECT_GT(divided, 20);  // or the test compares nothing
}

TEST(Choice, DividesNothingOverASlowLink) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomProblem random(seed);
    const SplitOptions slow{.ranks = 2, .latency_s = 1, .bytes_per_second = 1};
    const SplitOptions fast{.ranks = 2, .latency_s = 0, .bytes_per_second = 1e18};
    EXPECT_LE(choose(random.problem, fast).cost.first, choose(random.problem, slow).cost.first) << seed;
  }
}

TEST(Forms, AreConvertedThroughTheWhole) {
  const RandomProblem random(1);
  const std::map<std::string, Placement> stored;
  Forms forms(random.graph, 2, stored);
  const Form split{.placement = Placement::split(1)};
  const Form other{.placement = Placement::split(0)};
  forms.define(3, Placement::split(1));
  EXPECT_TRUE(forms.obtain(3, split).empty());
  EXPECT_EQ(forms.obtain(3, other), (std::vector<Conversion>{{Kind::gather, split, Form()}, {Kind::scatter, Form(), other}}));
  EXPECT_TRUE(forms.obtain(3, Form()).empty()) << "it is a form that the conversion passed";
  forms.define(4, Placement::partial());
  EXPECT_EQ(forms.obtain(4, split),
            (std::vector<Conversion>{{Kind::reduce, {.placement = Placement::partial()}, Form()}, {Kind::scatter, Form(), split}}));
}

TEST(Forms, StoreAParameterAsItIsUsedFirst) {
  const RandomProblem random(1);
  const std::map<std::string, Placement> stored;
  Forms forms(random.graph, 2, stored);
  EXPECT_TRUE(forms.obtain(1, {.placement = Placement::split(1)}).empty());
  EXPECT_EQ(forms.obtain(1, Form()).size(), 1U);
  EXPECT_EQ(forms.obtain(2, {.placement = Placement::split(1, 2)}).size(), 1U) << "parts in groups are not stored";
  const std::map<std::string, Placement> whole{{"a", Placement()}};
  Forms decided(random.graph, 2, whole);
  EXPECT_EQ(decided.obtain(1, {.placement = Placement::split(1)}).size(), 1U);
}

}  // namespace choice_test
}  // namespace tw::splits
