// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <unit_order.hpp>

namespace unit_order_test {

using tw::UnitOrder;

/// Carries out moves, and looks whether they can be.
struct Memory {
  explicit Memory(size_t units, size_t ahead, std::vector<bool> keeps = {})
      : kept(keeps.empty() ? std::vector<bool>(units) : std::move(keeps)), order(kept, ahead) {}

  void use(const std::vector<size_t>& units, bool evaluates = false) {
    const UnitOrder::Moves moves = order.use(units, evaluates);
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

// Evaluations follow the forward part of what was learnt, and leave it as it is.
TEST(UnitOrder, IsNotTaughtByEvaluations) {
  Memory memory(5, 1);
  const auto late = [&](const std::vector<size_t>& way, bool evaluates) {
    const size_t before = memory.late;
    for (const size_t unit : way) memory.use({unit}, evaluates);
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
