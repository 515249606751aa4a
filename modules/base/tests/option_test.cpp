// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tw/base/config.hpp>
#include <tw/base/error.hpp>
#include <tw/base/option.hpp>

namespace option_test {

enum class Order { row, column };

struct Inner {
  double rate = 0.5;
  std::string unit = "ms";
};

void visit(Inner& inner, tw::OptionVisitor& visitor) {
  visitor.field("rate", inner.rate, {.least = 0, .most = 1, .above = true, .below = true}, {.meaning = "of loss"});
  visitor.field("unit", inner.unit, {"ms", "s"}, {.meaning = "of times"});
}

struct Outer {
  bool loud = false;
  int64_t count = 3;
  int narrow = 2;
  uint64_t seed = 7;
  Order order = Order::row;
  std::filesystem::path folder = "runs";
  Inner inner = {};
};

void visit(Outer& outer, tw::OptionVisitor& visitor) {
  visitor.field("loud", outer.loud, {.meaning = "say more"});
  visitor.field("count", outer.count, tw::count_from(1, 10), {.meaning = "of rows", .unit = "rows", .where = {{"loud", {"true"}}}});
  visitor.field("narrow", outer.narrow, tw::count_from(0), {.meaning = "an int"});
  visitor.field("seed", outer.seed, tw::count_from(0, 1e18), {.meaning = "of numbers"});
  visitor.field("order", outer.order, {{"row", Order::row}, {"column", Order::column}}, {.meaning = "in memory"});
  visitor.field("folder", outer.folder, {.meaning = "of output", .may_differ = true});
  visitor.group("inner", outer.inner, {{"order", {"row"}, /*but=*/true}});
}

std::string text_of(const std::vector<tw::Problem>& problems) {
  std::string text;
  for (const tw::Problem& each : problems) text += each.key + ' ' + each.what + " -> " + each.nearest + '\n';
  return text;
}

TEST(Option, DefaultsLieInTheirBounds) { EXPECT_EQ(text_of(tw::out_of_bounds(Outer{})), ""); }

TEST(Option, WhatLiesOutsideIsNamedWithWhatWouldDo) {
  EXPECT_EQ(text_of(tw::out_of_bounds(Outer{.count = 0, .narrow = -1, .inner = {.rate = 0}})),
            "count must be at least 1, got 0 -> 1\nnarrow must be at least 0, got -1 -> 0\ninner.rate must be positive, got 0 -> 1e-4\n");
  EXPECT_EQ(text_of(tw::out_of_bounds(Outer{.count = 11, .inner = {.rate = 1, .unit = "m"}})),
            "count must be at most 10, got 11 -> 10\ninner.rate must be below 1, got 1 -> 0.99\ninner.unit is \"m\", which is unknown -> \"ms\"\n");
  EXPECT_FALSE(tw::out_of_bounds(Outer{.inner = {.rate = std::numeric_limits<double>::quiet_NaN()}}).empty());
  EXPECT_THROW(tw::expect_none(tw::out_of_bounds(Outer{.count = 0})), tw::ContractError);
  EXPECT_NO_THROW(tw::expect_none({}));
}

TEST(Option, ValuesThatDifferHaveLinesThatDiffer) {
  const auto lines = tw::value_lines(Outer{});
  EXPECT_EQ(lines, (std::vector<std::string>{"loud false", "count 3", "narrow 2", "seed 7", "order row", "inner.rate 0.5", "inner.unit ms"}));
  EXPECT_EQ(tw::value_lines(Outer{.folder = "elsewhere"}), lines) << "which may differ";
  const double next = std::nextafter(0.5, 1);
  EXPECT_NE(tw::value_lines(Outer{.inner = {.rate = next}}), lines);
}

TEST(Option, AConfigurationFillsThem) {
  tw::Config config;
  for (const char* setting : {"loud=true", "count=5", "narrow=4", "seed=9", "order=column", "folder=/tmp", "inner.rate=0.25", "inner.unit=s"}) {
    config.set(setting);
  }
  Outer outer;
  config.bind(outer);
  config.finish();
  EXPECT_EQ(tw::value_lines(outer),
            (std::vector<std::string>{"loud true", "count 5", "narrow 4", "seed 9", "order column", "inner.rate 0.25", "inner.unit s"}));
  EXPECT_EQ(outer.folder, "/tmp");
}

TEST(Option, WhatIsWrongIsReportedOnceAndLeavesTheDefault) {
  tw::Config config;
  config.set("narrow=4294967297");  // is 1 in 32 bits
  config.set("order=columns");
  config.set("inner.unit=sec");
  Outer outer;
  config.bind(outer);
  EXPECT_EQ(outer.order, Order::row);
  EXPECT_EQ(outer.narrow, 2);
  EXPECT_TRUE(tw::out_of_bounds(outer).empty());
  try {
    config.finish();
    ADD_FAILURE() << "nothing was reported";
  } catch (const tw::ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 3U) << error.what();
    EXPECT_NE(std::string(error.what()).find("--set: order is \"columns\", which is unknown; the nearest is \"column\""), std::string::npos)
        << error.what();
  }
}

TEST(Option, TheTableTellsAll) {
  tw::OptionTable keys;
  Outer outer;
  visit(outer, keys);
  EXPECT_EQ(keys.table,
            "| key | default | what it may be | meaning |\n|---|---|---|---|\n"
            "| `loud` | false | true, false | say more |\n"
            "| `count` | 3 | at least 1, at most 10 (rows) | of rows; with `loud` = true |\n"
            "| `narrow` | 2 | at least 0 | an int |\n"
            "| `seed` | 7 | at least 0 | of numbers |\n"
            "| `order` | \"row\" | row, column | in memory |\n"
            "| `folder` | \"runs\" | a text | of output |\n"
            "| `inner.rate` | 0.5 | positive, below 1 | of loss; with `order` other than row |\n"
            "| `inner.unit` | \"ms\" | ms, s | of times; with `order` other than row |\n");
}

}  // namespace option_test
