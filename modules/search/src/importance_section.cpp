// SPDX-License-Identifier: Apache-2.0
#include "importance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr struct {
  double width = 400;
  double label = 300;
  double line_height = 32;
  double bar_height = 11;
  double legend_height = 24;
} bar_chart;
constexpr size_t max_pairs = 5;
constexpr double least_pair = 0.01;

/// The importance of parameters by one of the two measures.
struct Shares {
  const char* name;
  const char* colour;
  std::vector<double> shares;  // by parameter
};

constexpr const char* method =
    "By the forest: functional ANOVA (Hutter, Hoos and Leyton-Brown 2014) of a random forest that predicts the rank of each trial's loss. A share is "
    "the part of the forest's variance over the whole space that a parameter explains alone, or that a pair explains beyond its two parameters. It "
    "is as good as the forest, which knows little about regions with few trials. By the trials: the share of the variance of the losses' ranks that "
    "lies between the means of bins of a parameter's values, less the part expected by chance. This estimates the same first-order effect from the "
    "trials themselves (Plischke, Borgonovo and Smith 2013; epsilon squared, Kelley 1935). A search samples good regions more often than others, and "
    "these shares describe the samples; correlated parameters share the variance that they explain.";

std::string percent(double share) { return brief_text(std::round(1000 * share) / 10) + " %"; }

std::string bars(const Space& space, const std::vector<Shares>& measures) {
  std::vector<size_t> order(space.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return measures.front().shares[i]; });
  Svg svg(bar_chart.label + bar_chart.width + 60, bar_chart.legend_height + bar_chart.line_height * static_cast<double>(space.size()) + 8);
  double x = bar_chart.label;
  for (const Shares& measure : measures) {
    svg.rect({x, 6}, 10, 10, measure.colour);
    svg.text({x + 14, 15}, "start", measure.name);
    x += 140;
  }
  double y = bar_chart.legend_height;
  for (const size_t i : order) {
    svg.text({bar_chart.label - 8, y + bar_chart.line_height / 2}, "end", space.parameters()[i].name);
    for (size_t k = 0; k < measures.size(); ++k) {
      const Point corner{bar_chart.label, y + bar_chart.bar_height * static_cast<double>(k)};
      const double length = bar_chart.width * std::min(1.0, measures[k].shares[i]);
      svg.rect(corner, length, bar_chart.bar_height - 1, measures[k].colour);
      svg.text({corner.x + length + 6, corner.y + 9}, "start", percent(measures[k].shares[i]));
    }
    y += bar_chart.line_height;
  }
  return svg.in_page();
}

std::string pairs_table(const Space& space, const std::vector<PairShare>& pairs) {
  std::vector<std::vector<std::string>> rows;
  for (const PairShare& pair : pairs) {
    if (pair.share < least_pair || rows.size() == max_pairs) break;
    rows.push_back({space.parameters()[pair.first].name, space.parameters()[pair.second].name, percent(pair.share)});
  }
  if (rows.empty()) return "";
  return element("p", "Shares that pairs of parameters explain beyond each parameter alone, by the forest:") +
         table({"parameter", "and", "share"}, rows);
}

std::string quality_text(const LossForest& forest) {
  const double explained = forest.forest.explained();
  std::string text = concat("The forest has learnt from ", forest.trials,
                            " trials. For trials that a tree has not seen, the part of the variance of ranks that it predicts is ",
                            percent(std::max(0.0, explained)), ".");
  if (explained < 0.3) text += " That is little: the shares reflect chance more than parameters.";
  return text;
}

}  // namespace

std::string importance_section(const Findings& findings) {
  const std::vector<double> by_trials = importance(findings.ledger, findings.space);
  if (by_trials.empty() || !findings.forest) return "";
  const LossForest& forest = *findings.forest;
  return element("h2", "Importance of parameters") +
         bars(findings.space, {{"by the forest", "#0072b2", forest.shares.alone}, {"by the trials", "#e69f00", by_trials}}) +
         pairs_table(findings.space, forest.shares.pairs) + element("p", escaped(quality_text(forest))) + note(method);
}

}  // namespace tw::search
