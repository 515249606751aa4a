// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <unit_order.hpp>

namespace unit_order_test {

using tw::UnitOrder;
using Pass = tw::UseMoment::Pass;

/// Executes moves, and checks that they are possible.
struct Memory {
  explicit Memory(size_t units, size_t ahead, std::vector<bool> keeps = {})
      : kept(keeps.empty() ? std::vector<bool>(units) : std::move(keeps)), order(kept, ahead) {}

  void use(const std::vector<size_t>& units, Pass pass = Pass::backward, uint64_t number = 0) {
    const UnitOrder::Moves moves = order.use(units, {pass, number});
    for (const size_t unit : moves.release) EXPECT_EQ(gathered.erase(unit), 1U) << "released what was not gathered";
    for (const size_t unit : moves.gather) EXPECT_TRUE(gathered.insert(unit).second) << "gathered twice";
    for (const size_t unit : moves.ahead) EXPECT_TRUE(gathered.insert(unit).second) << "gathered twice";
    for (const size_t unit : units) EXPECT_TRUE(gathered.contains(unit)) << "not there";
    for (const size_t unit : gathered) EXPECT_TRUE(order.has(unit));
    gatherings += moves.gather.size() + moves.ahead.size();
    late += moves.gather.size();
    most = std::max(most, gathered.size());
  }
  void end_pass() {
    const std::vector<size_t> all = order.end_pass();
    for (const size_t unit : all) EXPECT_EQ(gathered.erase(unit), 1U) << "released what was not gathered";
    for (const size_t unit : gathered) EXPECT_TRUE(kept[unit]);
  }

  std::vector<bool> kept;
  UnitOrder order;
  std::set<size_t> gathered;
  size_t gatherings = 0, late = 0, most = 0;
};

TEST(UnitOrder, HoldsTwoUnitsAndThoseAhead) {
  std::mt19937 random(1);
  for (const size_t ahead : {0, 1, 3}) {
    Memory memory(9, ahead);
    for (int pass = 0; pass < 50; ++pass) {
      for (int i = 0; i < 40; ++i) memory.use({random() % 9});
      memory.end_pass();
    }
    EXPECT_LE(memory.most, 1 + std::max<size_t>(ahead, 1));
  }
}

TEST(UnitOrder, TakesSeveralAtOnce) {
  Memory memory(6, 0);
  memory.use({0, 1, 2, 3});
  EXPECT_EQ(memory.gathered.size(), 4U);
  memory.use({5});
  EXPECT_LE(memory.gathered.size(), 2U);
  memory.end_pass();
}

TEST(UnitOrder, LetsTwoUnitsTakeTurns) {
  Memory memory(3, 0);
  for (int i = 0; i < 10; ++i) memory.use({static_cast<size_t>(i % 2)});
  EXPECT_EQ(memory.gatherings, 2U);
}

TEST(UnitOrder, ComesBackToItsWay) {
  Memory memory(5, 1);
  const auto pass = [&](const std::vector<size_t>& way) {
    const size_t late = memory.late;
    for (const size_t unit : way) memory.use({unit});
    memory.end_pass();
    return memory.late - late;
  };
  pass({0, 1, 2, 3, 4});
  EXPECT_EQ(pass({0, 1, 2, 3, 4}), 1U);
  EXPECT_EQ(pass({0, 2, 3, 4}), 2U) << "one was left out: the next one comes late, and no other";
}

// Evaluations follow the forward part of what was learnt, and leave it unchanged.
TEST(UnitOrder, IsNotTaughtByEvaluations) {
  Memory memory(5, 1);
  const auto late = [&](const std::vector<size_t>& way, bool evaluates) {
    const size_t before = memory.late;
    for (const size_t unit : way) memory.use({unit}, evaluates ? Pass::evaluation : Pass::backward);
    if (!evaluates) memory.end_pass();
    return memory.late - before;
  };
  const std::vector<size_t> forward{0, 1, 2, 3, 4};
  const std::vector<size_t> training{0, 1, 2, 3, 4, 3, 2, 1, 0};
  late(training, false);
  EXPECT_EQ(late(training, false), 1U);
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(late(forward, true), 1U) << pass;
  EXPECT_EQ(late(training, false), 1U);
  EXPECT_EQ(late(training, false), 1U);
}

/// A forward pass through five units, the first of which is tied to the last layer, and its backward pass, which does not use the first layer's.
struct Passes {
  std::vector<size_t> forward{0, 1, 2, 3, 4, 0};
  Memory memory{5, 1};
  uint64_t next = 7;  // of autograd's nodes

  /// @return units gathered late
  size_t go_forward() {
    const size_t before = memory.late;
    for (const size_t unit : forward) memory.use({unit}, Pass::forward, next++);
    return memory.late - before;
  }
  size_t go_back(uint64_t end) {
    const size_t before = memory.late;
    for (size_t i = forward.size() - 1; i > 0; --i) memory.use({forward[i]}, Pass::backward, end - (forward.size() - i));
    return memory.late - before;
  }
  size_t train() {
    const size_t late = go_forward();
    return late + go_back(next);
  }
};

// e.g. in the forward() of a torch::autograd::Function
TEST(UnitOrder, KeepsWhatATrainingPassHasFetchedThroughOperatorsWithoutGradients) {
  Memory memory(6, 1);
  for (int pass = 0; pass < 3; ++pass) {
    const size_t late = memory.late;
    for (const size_t unit : {0, 2, 4}) {
      memory.use({unit}, Pass::forward);
      memory.use({unit + 1}, Pass::evaluation);
    }
    for (const size_t unit : {4, 2, 0}) memory.use({unit}, Pass::backward);
    memory.end_pass();
    if (pass == 0) continue;
    EXPECT_EQ(memory.late - late, 5U) << "the first and the last of the forward pass, and those without gradients";
  }
}

// With gradients enabled: nothing announces that no backward pass will follow.
TEST(UnitOrder, IsNotTaughtByForwardPassesWithoutABackwardPass) {
  Passes passes;
  const auto train = [&] {
    const size_t late = passes.train();
    passes.memory.end_pass();
    return late;
  };
  train();
  const size_t usual = train();
  EXPECT_EQ(usual, 1U);
  for (const int evaluations : {1, 3, 2000}) {
    size_t late = 0;
    for (int i = 0; i < evaluations; ++i) late += passes.go_forward();
    EXPECT_LE(late, 2 * static_cast<size_t>(evaluations)) << "a backward pass is expected after each";
    EXPECT_LE(train(), usual + 1) << "after " << evaluations;
    EXPECT_EQ(train(), usual) << evaluations;
    EXPECT_EQ(train(), usual) << evaluations;
  }
}

TEST(UnitOrder, LearnsAllForwardPassesOfABackwardPass) {
  Passes passes;
  const auto train = [&] {
    size_t late = 0;
    for (int i = 0; i < 3; ++i) late += passes.go_forward();
    const uint64_t end = passes.next;
    for (uint64_t i = 0; i < 3; ++i) late += passes.go_back(end - i * passes.forward.size());
    passes.memory.end_pass();
    return late;
  };
  train();
  EXPECT_EQ(train(), 1U);
  EXPECT_EQ(train(), 1U);
}

TEST(UnitOrder, KeepsUnitsUntilTheyAreForgotten) {
  Memory memory(4, 1, {false, true, false, false});
  const auto pass = [&] {
    for (const size_t unit : {0, 1, 2, 3, 2, 1, 0}) memory.use({unit});
    memory.end_pass();
  };
  pass();
  const size_t first = memory.gatherings;
  pass();
  EXPECT_EQ(memory.gathered, std::set<size_t>{1});
  const size_t second = memory.gatherings - first;
  memory.order.forget(1);
  memory.gathered.erase(1);
  pass();
  EXPECT_EQ(memory.gatherings - first - second, second + 1);
}

TEST(UnitOrder, KeepsTheSmallestUnits) {
  using Kept = std::vector<bool>;
  EXPECT_EQ(tw::kept_units({10, 3, 7, 3}, 0, 0), (Kept{false, false, false, false}));
  EXPECT_EQ(tw::kept_units({10, 3, 7, 3}, 0, 6), (Kept{false, true, false, true}));
  EXPECT_EQ(tw::kept_units({10, 3, 7, 3}, 0, 12), (Kept{false, true, false, true}));
  EXPECT_EQ(tw::kept_units({10, 3, 7, 3}, 0, 23), (Kept{true, true, true, true}));
  EXPECT_EQ(tw::kept_units({10, 7}, 0, 0), (Kept{true, true})) << "both are in memory anyway";
  EXPECT_EQ(tw::kept_units({10, 7, 3}, 2, 0), (Kept{true, true, true})) << "as many as are gathered at a time";
}

}  // namespace unit_order_test
