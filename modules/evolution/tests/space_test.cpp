// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace space_test {

using testing::message_of;

void expect_refused(const std::vector<Parameter>& parameters, const std::string& part) {
  const std::string message = message_of([&] { Space{parameters}; });
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

Space network() {
  return {real("lr", 1e-4, 1e-1, log_scale),
          integer("layers", 2, 10),
          ordinal("batch", {16, 32, 64}),
          categorical("optimizer", {"sgd", "adam"}),
          real("momentum", 0, 0.95, Scale::linear, 0.05).when("optimizer", {"sgd"}),
          categorical("decay", {"none", "cosine"}).when("optimizer", {"sgd", "adam"})};
}

TEST(Space, RefusesWhatIsWrongByName) {
  expect_refused({real("lr", 0.1, 0.01)}, "parameter 'lr': limits are reversed: 0.1 is above 0.01");
  expect_refused({real("lr", 0.1, 0.1)}, "parameter 'lr': the range is empty");
  expect_refused({real("lr", 0, 1, log_scale)}, "parameter 'lr': a logarithmic scale needs positive limits");
  expect_refused({real("lr", 0, INFINITY)}, "parameter 'lr': limits must be finite");
  expect_refused({real("lr", 0, 1, Scale::linear, 2)}, "parameter 'lr': the step must be between 0 and 1");
  Parameter stepped = integer("n", 1, 9);
  stepped.step = 2;
  expect_refused({stepped}, "parameter 'n': the step of integers is always 1");
  Parameter worded = ordinal("b", {16, 32});
  worded.numbers.pop_back();
  expect_refused({worded}, "parameter 'b': 2 choices and 1 numbers");
  expect_refused({integer("n", 3, 2)}, "parameter 'n': limits are reversed");
  expect_refused({categorical("f", {})}, "parameter 'f': the range is empty");
  expect_refused({categorical("f", {"a", "a"})}, "the choice 'a' occurs twice");
  expect_refused({ordinal("b", {32, 16})}, "parameter 'b': ordinal numbers must ascend");
  expect_refused({ordinal("b", {-0.0, 0.0})}, "parameter 'b': the number -0 occurs twice");
  expect_refused({integer("n", 1, 2), real("n", 0, 1)}, "two parameters are called 'n'");
  expect_refused({real("", 0, 1)}, "parameter 0 has no name");
  expect_refused({}, "at least one parameter");
  expect_refused({real("a", 0, 1).when("b", {"x"}), categorical("b", {"x"})}, "parameter 'a' depends on 'b', which is not declared before it");
  expect_refused({categorical("b", {"x"}), real("a", 0, 1).when("b", {"y"})}, "is 'y', which is not one of the values of that parameter");
}

/// In float64, such a range has no middle, and such steps have no count.
TEST(Space, RefusesWhatDoublesCannotHold) {
  expect_refused({real("x", -1e308, 1e308)}, "parameter 'x': limits -1e+308 and 1e+308 are too far apart: their difference must be a finite double");
  expect_refused({real("x", 2e-308, 1e308, log_scale)}, "are too far apart: their ratio must be a finite double");
  expect_refused({real("x", 0, 1, Scale::linear, 1e-25)},
                 "the step 1e-25 is smaller than the spacing of doubles between 0 and 1: pass 0 for no steps");
  expect_refused({real("x", 1e6, 2e6, Scale::linear, 1e-11)}, "the step 1e-11 is smaller than the spacing of doubles");
  const Space wide{real("x", -8e307, 8e307), real("y", 1e-150, 1e150, log_scale), real("z", 0, 1, Scale::linear, 1e-15)};
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(wide.from_unit(i, 0), wide.parameters()[i].low);
    EXPECT_NEAR(wide.from_unit(i, 1) / wide.parameters()[i].high, 1, 1e-12) << "300 ln 10 is rounded by 1e-13 in the exponent";
    EXPECT_NEAR(wide.to_unit(i, wide.from_unit(i, 0.25)), 0.25, 1e-12);
  }
  EXPECT_EQ(wide.parameters()[2].count(), 1000000000000001);
}

/// Numbers are printed as written by hand; choices match by number, however they are written.
TEST(Space, WritesNumbersPlainly) {
  const Space space{ordinal("batch", {16, 100000}), integer("steps", 1, 1000000).when("batch", {"1e5"}), real("lr", 1e-6, 1)};
  EXPECT_EQ(Configuration(space, {1, 200000, 0.0001}).describe(), "batch=100000 steps=200000 lr=0.0001");
  EXPECT_TRUE(space.exists(1, {1, 1, 1}));
  EXPECT_FALSE(space.exists(1, {0, 1, 1}));
}

TEST(Space, PositionsAndValuesAreTheSame) {
  const Space space = network();
  CounterRng random(1);
  EXPECT_EQ(space.dimensions(), 1U + 1 + 1 + 2 + 1 + 2);
  for (int i = 0; i < 1000; ++i) {
    std::vector<double> position;
    for (size_t k = 0; k < space.dimensions(); ++k) position.push_back(uniform(random));
    const std::vector<double> values = space.decode(position);
    ASSERT_TRUE(space.contains(values));
    const std::vector<double> again = space.decode(space.encode(values));
    for (size_t k = 0; k < values.size(); ++k) {
      // exp(log(x)) for x up to 0.1 in a range with a factor of 1000: 2 rounding errors of logs up to 7
      ASSERT_EQ(std::isnan(values[k]), std::isnan(again[k]));
      if (std::isnan(values[k])) continue;
      ASSERT_NEAR(values[k], again[k], 16 * std::numeric_limits<double>::epsilon());
    }
  }
}

TEST(Space, EveryWholeNumberHasAnEqualShare) {
  const Space space{integer("n", 1, 4), ordinal("b", {1, 2, 4, 8})};
  std::vector<int> counts(4, 0);
  for (int i = 0; i < 400; ++i) {
    const double unit = (i + 0.5) / 400;
    ++counts[static_cast<size_t>(space.from_unit(0, unit)) - 1];
    EXPECT_EQ(space.from_unit(1, unit), space.from_unit(0, unit) - 1);
  }
  EXPECT_EQ(counts, (std::vector<int>{100, 100, 100, 100}));
}

TEST(Space, EveryStepHasAShareAndLiesWithinIt) {
  // The upper limits are not on a step: 0.9 and 2.0 are the last values.
  const Space space{real("a", 0, 1, Scale::linear, 0.3), real("b", 1, 2.4, log_scale, 0.5)};
  std::vector<int> counts(4, 0);
  for (int i = 0; i <= 400; ++i) {
    const std::vector<double> values{space.from_unit(0, i / 400.0), space.from_unit(1, i / 400.0)};
    ASSERT_TRUE(space.contains(values)) << values[0] << ' ' << values[1];
    ++counts[static_cast<size_t>(std::lround(values[0] / 0.3))];
  }
  EXPECT_EQ(counts, (std::vector<int>{100, 100, 100, 101}));
  for (int k = 0; k < 4; ++k) EXPECT_NEAR(space.to_unit(0, 0.3 * k), (k + 0.5) / 4, 1e-15);
  EXPECT_EQ(space.from_unit(1, 1), 2);
}

TEST(Space, ConditionsOnNumbersMeetTheirSteps) {
  const Space space{real("a", 0, 1, Scale::linear, 0.1), integer("n", 1, 9), real("b", 0, 1).when("a", {"0.3"}), real("c", 0, 1).when("n", {"4"})};
  std::vector<double> values{0.31, 4, 0.5, 0.5};
  space.repair(values);
  EXPECT_FALSE(std::isnan(values[2])) << "3 steps of 0.1 are not 0.3, but meant";
  EXPECT_FALSE(std::isnan(values[3]));
  values[0] = 0.4;
  space.repair(values);
  EXPECT_TRUE(std::isnan(values[2]));
  expect_refused({real("a", 0, 1, Scale::linear, 0.1), real("b", 0, 1).when("a", {"0.35"})},
                 "is '0.35', which is not one of the values of that parameter");
  expect_refused({integer("n", 1, 9), real("c", 0, 1).when("n", {"4.5"})}, "is '4.5', which is not one of the values of that parameter");
}

TEST(Space, MayStartSomewhere) {
  EXPECT_TRUE(network().starts().empty());
  const Space space{real("lr", 1e-4, 1e-2, log_scale), integer("n", 1, 9).starting_at("4"), categorical("kind", {"a", "b"}).starting_at("b"),
                    ordinal("size", {16, 32}).starting_at("32"), real("x", 0, 1).starting_at("0.25").when("kind", {"a"})};
  ASSERT_EQ(space.starts().size(), 1U);
  const std::vector<double> initial = space.starts()[0];
  EXPECT_NEAR(initial[0], 1e-3, 1e-12) << "the middle of its scale";
  EXPECT_EQ(initial[1], 4);
  EXPECT_EQ(initial[2], 1);
  EXPECT_EQ(initial[3], 1);
  EXPECT_TRUE(std::isnan(initial[4])) << "it does not exist there";
  expect_refused({real("lr", 0, 1).starting_at("2")}, "parameter 'lr' starts at '2', which is not one of its values");
  expect_refused({categorical("kind", {"a", "b"}).starting_at("c")}, "parameter 'kind' starts at 'c'");
}

TEST(Space, MayStartAtSeveralConfigurations) {
  Space space{real("lr", 1e-4, 1e-2, log_scale).starting_at("0.002"), categorical("kind", {"a", "b"}), real("x", 0, 1).when("kind", {"a"})};
  space.start_at({{"kind", "b"}});
  space.start_at({{"lr", "0.005"}, {"x", "0.25"}});
  ASSERT_EQ(space.starts().size(), 3U);
  EXPECT_TRUE(same_values(space.starts()[0], {0.002, 0, 0.5}));
  EXPECT_TRUE(same_values(space.starts()[1], {0.002, 1, NAN})) << "what is not named starts where it says";
  EXPECT_TRUE(same_values(space.starts()[2], {0.005, 0, 0.25}));
  const auto refusal_of = [&](const std::map<std::string, std::string>& values) { return message_of([&] { space.start_at(values); }); };
  EXPECT_NE(refusal_of({{"kin", "b"}}).find("did you mean 'kind'"), std::string::npos);
  EXPECT_NE(refusal_of({{"lr", "0.5"}}).find("parameter 'lr' starts at '0.5', which is not one of its values"), std::string::npos);
  EXPECT_NE(refusal_of({{"kind", "b"}, {"x", "0.5"}}).find("parameter 'x' starts at '0.5', but does not exist"), std::string::npos);
  EXPECT_EQ(space.starts().size(), 3U);
}

TEST(Space, RefusesAnotherNumberOfValues) {
  const Space space = network();
  EXPECT_THROW(space.encode({0.01}), ContractError);
  EXPECT_THROW(space.decode({0.5}), ContractError);
  EXPECT_THROW(Configuration(space, {0.01}), ContractError);
}

TEST(Space, WhatDoesNotExistHasNoValue) {
  const Space space = network();
  std::vector<double> values{0.01, 4, 1, 1, 0.5, 1};  // adam
  space.repair(values);
  const Configuration c(space, values);
  EXPECT_FALSE(c.has("momentum"));
  EXPECT_NE(message_of([&] { c.real("momentum"); }).find("parameter 'momentum' does not exist in this configuration"), std::string::npos);
  EXPECT_EQ(c.describe(), "lr=0.01 layers=4 batch=32 optimizer=adam decay=cosine");
  values[3] = 0;
  space.repair(values);
  EXPECT_DOUBLE_EQ(Configuration(space, values).real("momentum"), 0.5);  // 0.475 is the middle; this is the nearest step
}

TEST(Space, ValuesAreReadByNameAndKind) {
  const Space space = network();
  const Configuration c(space, {0.01, 4, 2, 0, 0.9, 0});
  EXPECT_DOUBLE_EQ(c.real("lr"), 0.01);
  EXPECT_EQ(c.integer("layers"), 4);
  EXPECT_EQ(c.integer("batch"), 64);
  EXPECT_EQ(c.text("optimizer"), "sgd");
  EXPECT_NE(message_of([&] { c.real("layer"); }).find("did you mean 'layers'?"), std::string::npos);
  EXPECT_NE(message_of([&] { c.real("optimizer"); }).find("is not a number"), std::string::npos);
  EXPECT_NE(message_of([&] { c.integer("lr"); }).find("not a 64-bit integer"), std::string::npos);
}

TEST(Space, RepairsToTheNearest) {
  const Space space = network();
  std::vector<double> values{1, 11.4, -1, 0, 0.93, 7};
  EXPECT_FALSE(space.contains(values));
  space.repair(values);
  EXPECT_EQ(values[0], 0.1);
  EXPECT_EQ(values[1], 10);
  EXPECT_EQ(values[2], 0);
  EXPECT_DOUBLE_EQ(values[4], 0.95);
  EXPECT_EQ(values[5], 1);
  EXPECT_TRUE(space.contains(values));
}

TEST(Space, NamesTheConstraintThatIsViolated) {
  Space space{integer("a", 0, 9), integer("b", 0, 9)};
  space.require("a below b", [](const Configuration& c) { return c.integer("a") < c.integer("b"); });
  EXPECT_EQ(space.violated({1, 2}), "");
  EXPECT_EQ(space.violated({2, 2}), "a below b");
  space.require("a above 0", [](const Configuration& c) { return c.integer("a") > 0; });
  EXPECT_EQ(space.constraints(), (std::vector<std::string>{"a below b", "a above 0"}));
}

}  // namespace space_test
}  // namespace tw::search
