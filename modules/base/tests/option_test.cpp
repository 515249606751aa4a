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
  visitor.field("rate", inner.rate, {.least = 0, .most = 1, .excludes_least = true, .excludes_most = true}, {.meaning = "of loss"});
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
  visitor.field("count", outer.count, tw::at_least(1, 10), {.meaning = "of rows", .unit = "rows", .applies_if = {{"loud", {"true"}}}});
  visitor.field("narrow", outer.narrow, tw::at_least(0), {.meaning = "an int"});
  visitor.field("seed", outer.seed, tw::at_least(0, 1e18), {.meaning = "of numbers"});
  visitor.field("order", outer.order, {{"row", Order::row}, {"column", Order::column}}, {.meaning = "in memory"});
  visitor.field("folder", outer.folder, {.meaning = "of output", .may_differ = true});
  visitor.group("inner", outer.inner, {{"order", {"row"}, /*negated=*/true}});
}

/// Lists, optional values, and fields that only C++ can set.
struct Lists {
  std::vector<int> counts = {1};
  std::vector<std::string> names = {};
  std::vector<std::vector<double>> rows = {};
  std::optional<Inner> inner = {};
  bool is_called = false;
};

void visit(Lists& lists, tw::OptionVisitor& visitor) {
  visitor.field("counts", lists.counts, tw::at_least(1), {.meaning = "of rows"});
  visitor.field("names", lists.names, {.meaning = "of columns"});
  visitor.field("rows", lists.rows, {.least = 0}, {.meaning = "of each"});
  visitor.presence("call", lists.is_called);
  visitor.group("inner", lists.inner);
}

/// Optional values, and lists of names and of large numbers.
struct Choices {
  std::optional<int> limit = {};
  std::optional<Order> only = {};
  std::vector<Order> orders = {Order::row, Order::column};
  std::vector<int64_t> sizes = {};
};

void visit(Choices& choices, tw::OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Order>> names{{"row", Order::row}, {"column", Order::column}};
  visitor.field("limit", choices.limit, tw::at_least(1), tw::About{.meaning = "of rows"});
  visitor.field("only", choices.only, names, tw::About{.meaning = "of both"});
  visitor.field("orders", choices.orders, names, {.meaning = "that are tried"});
  visitor.field("sizes", choices.sizes, tw::at_least(1, tw::any_count), {.meaning = "of files"});
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
            "count must be at most 10, got 11 -> 10\ninner.rate must be below 1, got 1 -> 0.99\ninner.unit is \"m\", but must be one of "
            "\"ms\", \"s\" -> \"ms\"\n");
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
  config.set("narrow=4294967297");  // 1 in 32 bits
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
    EXPECT_NE(std::string(error.what()).find("--set: order is \"columns\", but must be one of \"row\", \"column\"; the nearest is \"column\""),
              std::string::npos)
        << error.what();
  }
}

TEST(Option, ListsAreReadAndCompared) {
  tw::Config config;
  for (const char* setting : {"counts=[3, 4]", "names=[\"a\", \"b c\"]", "rows.2=[0.5]", "rows.0=2", "inner.unit=s"}) config.set(setting);
  Lists lists;
  config.bind(lists);
  config.finish();
  EXPECT_EQ(lists.rows, (std::vector<std::vector<double>>{{2}, {}, {0.5}}));
  EXPECT_EQ(tw::value_lines(lists), (std::vector<std::string>{"counts [3, 4]", "names [\"a\", \"b c\"]", "rows.0 [2]", "rows.2 [0.5]",
                                                              "call not given", "inner given", "inner.rate 0.5", "inner.unit s"}));
  EXPECT_EQ(tw::value_lines(Lists{.is_called = true}), (std::vector<std::string>{"counts [1]", "names []", "call given", "inner not given"}));
}

TEST(Option, WhatThereMayBeIsToldWhereItIs) {
  EXPECT_EQ(tw::value_lines(Choices{}), (std::vector<std::string>{"limit not given", "only not given", "orders [\"row\", \"column\"]", "sizes []"}));
  const Choices some{.limit = 3, .only = Order::column, .orders = {Order::column}, .sizes = {int64_t{1} << 40}};
  EXPECT_EQ(tw::value_lines(some),
            (std::vector<std::string>{"limit given", "limit 3", "only given", "only column", "orders [\"column\"]", "sizes [1099511627776]"}));
  EXPECT_EQ(text_of(tw::out_of_bounds(Choices{.limit = 0, .sizes = {1, -1}})),
            "limit must be at least 1, got 0 -> 1\nsizes must be at least 1, got -1 -> 1\n");
  Choices same = some;
  tw::BoundsCheck check;
  visit(same, check);
  EXPECT_EQ(tw::value_lines(same), tw::value_lines(some)) << "looking changes nothing";
}

TEST(Option, EachOfAListLiesInItsBounds) {
  EXPECT_EQ(text_of(tw::out_of_bounds(Lists{.counts = {2, 0, -1}, .rows = {{}, {0, -0.5}}, .inner = Inner{.rate = 0}})),
            "counts must be at least 1, got 0 -> 1\nrows.1 must be at least 0, got -0.5 -> 0\ninner.rate must be positive, got 0 -> 1e-4\n");
  EXPECT_EQ(text_of(tw::out_of_bounds("lists", Lists{.counts = {0}})), "lists.counts must be at least 1, got 0 -> 1\n");
  tw::Config config;
  for (const char* setting : {"counts=[2.5]", "rows.1=[-1]", "rows.x=[1]", "rows.-1=[1]"}) config.set(setting);
  Lists lists;
  config.bind(lists);
  EXPECT_EQ(lists.counts, std::vector<int>{1}) << "the default";
  try {
    config.finish();
    ADD_FAILURE() << "nothing was reported";
  } catch (const tw::ConfigError& error) {
    EXPECT_EQ(error.problems(), (std::vector<std::string>{"--set: counts must be whole numbers, got 2.5; the nearest valid value is 2",
                                                          "--set: rows.-1 must end with a number from 0 to 9999; the nearest valid value is rows.0",
                                                          "--set: rows.1 must be at least 0, got -1; the nearest valid value is 0",
                                                          "--set: rows.x must end with a number from 0 to 9999; the nearest valid value is rows.0"}));
  }
}

TEST(Option, TheTableTellsOfLists) {
  tw::OptionTable keys;
  Lists lists;
  visit(lists, keys);
  EXPECT_EQ(keys.table,
            "| key | default | values | meaning |\n|---|---|---|---|\n"
            "| `counts` | [1] | a list, each at least 1 | of rows |\n"
            "| `names` | [] | a list of strings | of columns |\n"
            "| `rows.0, .1, ...` | [] | a list, each at least 0 | of each |\n"
            "| `inner.rate` | 0.5 | positive, below 1 | of loss |\n"
            "| `inner.unit` | \"ms\" | ms, s | of times |\n");
}

TEST(Option, TheTableTellsAll) {
  tw::OptionTable keys;
  Outer outer;
  visit(outer, keys);
  EXPECT_EQ(keys.table,
            "| key | default | values | meaning |\n|---|---|---|---|\n"
            "| `loud` | false | true, false | say more |\n"
            "| `count` | 3 | at least 1, at most 10 (rows) | of rows; with `loud` = true |\n"
            "| `narrow` | 2 | at least 0 | an int |\n"
            "| `seed` | 7 | at least 0 | of numbers |\n"
            "| `order` | \"row\" | row, column | in memory |\n"
            "| `folder` | \"runs\" | a string | of output |\n"
            "| `inner.rate` | 0.5 | positive, below 1 | of loss; with `order` other than row |\n"
            "| `inner.unit` | \"ms\" | ms, s | of times; with `order` other than row |\n");
}

}  // namespace option_test
