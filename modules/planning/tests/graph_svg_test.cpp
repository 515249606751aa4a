// SPDX-License-Identifier: Apache-2.0
// Checks the elements of a graph's picture, with stages.
#include "random_profile.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <tw/base/contract.hpp>
#include <tw/planning/analytic.hpp>
#include <tw/planning/graph_svg.hpp>

#include "graph_layers.hpp"

namespace tw::pipeline {
namespace graph_svg_test {

/// All matches of `pattern`, reduced to one group.
std::vector<std::string> all_of(const std::string& text, const std::string& pattern, int group = 0) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex); match != std::sregex_iterator(); ++match) found.push_back(match->str(group));
  return found;
}

/// Checks that elements are closed in reverse order, attributes are quoted, and text contains no bare & or <.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  const std::regex tag(R"x(<(/?)([a-z]+)((?: [a-zA-Z0-9-]+="[^"<]*")*)(/?)>)x");
  std::string text;
  auto rest = xml.cbegin();
  for (std::smatch match; std::regex_search(rest, xml.cend(), match, tag); rest = match.suffix().first) {
    text += match.prefix().str();
    if (match[1].length() > 0) {
      ASSERT_FALSE(open.empty()) << match.str();
      EXPECT_EQ(open.back(), match[2]);
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
  }
  text += std::string(rest, xml.cend());
  EXPECT_TRUE(open.empty()) << open.back() << " is not closed";
  EXPECT_EQ(text.find('<'), std::string::npos) << text;
  EXPECT_TRUE(all_of(text, "&(?!(amp|lt|gt|quot|#39);)").empty()) << text;
}

/// A chain of a and b; c joins both and the input. The mask, without batch data, is an input of a and c.
Profile joined() {
  Profile profile{.hash = "joined", .input_bytes = {0, 10}};
  profile.parameters = {{"weight", 100}};
  const auto op = [](const char* name, std::vector<int> inputs, double bytes) {
    return ProfiledOperator{.name = name, .inputs = std::move(inputs), .forward = {1, 0.5}, .backward = {2, 1}, .output_bytes = {0, bytes}};
  };
  profile.operators = {op("mask <&>", {}, 1), op("a \"quoted\"", {-1, 0}, 300), op("b", {1}, 2e6), op("c", {0, 1, 2, -1}, 7)};
  return profile;
}

Plan two_stages() {
  return {.hash = "joined", .batch = 8, .micro_batches = 2, .stages = {{.operators = {0, 1, 2}, .replicas = 2}, {.operators = {0, 3}}}};
}

TEST(GraphSvg, hasEachOperatorInTheColourOfItsStage) {
  const std::string svg = graph_svg(joined(), two_stages());
  expect_well_formed(svg);
  EXPECT_EQ(all_of(svg, R"x(<g class="operator")x").size(), 4U);
  const auto first = all_of(svg, R"x(data-stage="0">\s*<rect[^>]* fill="([^"]+)")x", 1);
  const auto second = all_of(svg, R"x(data-stage="1">\s*<rect[^>]* fill="([^"]+)")x", 1);
  const auto none = all_of(svg, R"x(class="operator">\s*<rect[^>]* fill="([^"]+)")x", 1);
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(second.size(), 1U);
  ASSERT_EQ(none.size(), 1U) << "the mask";
  EXPECT_EQ(first[0], first[1]);
  EXPECT_NE(first[0], second[0]);
  EXPECT_NE(none[0], first[0]);
  EXPECT_NE(none[0], second[0]);
  EXPECT_EQ(all_of(svg, R"x(<rect[^>]* fill="([^"]+)"[^>]* class="legend")x", 1), (std::vector<std::string>{first[0], second[0]}));
  test::expect_contains(svg, "stage 0: 3 operators, 2 replicas");
  test::expect_contains(svg, ">mask &lt;&amp;&gt;</text>");
}

TEST(GraphSvg, marksWhatCrossesStagesWithBytesOfAMicroBatch) {
  const std::string svg = graph_svg(joined(), two_stages());
  EXPECT_EQ(all_of(svg, R"x(<path[^>]* class="cut")x").size(), 3U) << "a, b and the input to c";
  EXPECT_EQ(all_of(svg, R"x(<path[^>]* class="edge")x").size(), 4U) << "the input and the mask to a, a to b, the mask to c, which has its own";
  EXPECT_EQ(all_of(svg, R"x(class="bytes"[^>]*>([^<]+))x", 1), (std::vector<std::string>{"1.2 kB", "8.0 MB", "40 B"})) << "of 4 rows";
  Plan one{.hash = "joined", .batch = 8, .micro_batches = 2, .stages = {{.operators = {0, 1, 2, 3}}}};
  EXPECT_TRUE(all_of(graph_svg(joined(), one), "class=\"(cut|bytes)\"").empty());
}

TEST(GraphSvg, labelsOnceWhatAStageTakesSeveralTimes) {
  Profile profile = joined();
  profile.operators[3].inputs = {2};
  profile.operators.push_back(profile.operators[3]);
  profile.operators[4].name = "d";
  Plan plan = two_stages();
  plan.stages[1].operators = {3, 4};
  const std::string svg = graph_svg(profile, plan);
  EXPECT_EQ(all_of(svg, R"x(<path[^>]* class="cut")x").size(), 2U);
  EXPECT_EQ(all_of(svg, R"x(class="bytes")x").size(), 1U);
}

TEST(GraphSvg, layersLieBelowWhatTheyTake) {
  std::mt19937 random(7);
  for (int graph = 0; graph < 50; ++graph) {
    const Profile profile = test::random_profile(random, 40);
    std::vector<int> layer_of(profile.operators.size(), -1);
    const auto layers = layers_of(profile);
    size_t placed = 0;
    for (size_t l = 0; l < layers.size(); ++l) {
      placed += layers[l].size();
      EXPECT_FALSE(layers[l].empty()) << graph << ": layer " << l;
      for (const int op : layers[l]) layer_of[static_cast<size_t>(op)] = static_cast<int>(l);
    }
    ASSERT_EQ(placed, profile.operators.size());
    for (size_t i = 0; i < profile.operators.size(); ++i) {
      for (const int input : profile.operators[i].inputs) {
        if (input < 0) continue;
        EXPECT_LT(layer_of[static_cast<size_t>(input)], layer_of[i]) << graph << ": " << input << " to " << i;
      }
    }
  }
}

TEST(GraphSvg, ofHundredsOfOperatorsIsWellFormedToo) {
  const Profile profile = transformer_profile(48, 64, 4, 16, 100, {});
  const PlanResult planned = plan(profile, {.devices = 12}, {.batch = 64, .micro_batches = 8});
  const std::string svg = graph_svg(profile, planned.best());
  expect_well_formed(svg);
  EXPECT_EQ(all_of(svg, R"x(<g class="operator")x").size(), profile.operators.size());
  EXPECT_LT(svg.size(), 1000 * profile.operators.size());
}

TEST(GraphSvg, refusesAPlanOfAnotherModel) {
  Plan plan = two_stages();
  plan.hash = "other";
  EXPECT_THROW(graph_svg(joined(), plan), ContractError);
}

}  // namespace graph_svg_test
}  // namespace tw::pipeline
