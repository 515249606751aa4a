// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <unit_order.hpp>

namespace unit_order_test {

using tw::UnitOrder;

/// Carries out moves, and looks whether they can be.
struct Memory {
  explicit Memory(size_t units, size_t ahead) : order(units, ahead) {}

  void use(const std::vector<size_t>& units) {
    const UnitOrder::Moves moves = order.use(units);
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
    EXPECT_EQ(std::set<size_t>(all.begin(), all.end()), gathered);
    gathered.clear();
  }

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

}  // namespace unit_order_test
