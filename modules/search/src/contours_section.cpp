// SPDX-License-Identifier: Apache-2.0
// The two parameters that are most important together: predictions of the forest, and trials.
#include <algorithm>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

#include "chart.hpp"
#include "ranked.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr Chart::Size map_size{.width = 600, .height = 420};
constexpr int64_t max_cells_of_side = 30;  // along an axis
constexpr size_t max_trials_on_map = 300;

/// The pair with the largest share of the variance, alone and together.
PairShare most_important_pair(const VarianceShares& shares) {
  const auto closed = [&](const PairShare& pair) { return shares.alone[pair.first] + shares.alone[pair.second] + pair.share; };
  return *std::ranges::max_element(shares.pairs, {}, closed);
}

int64_t cells_of(const Parameter& parameter) { return parameter.count() > 0 ? std::min(parameter.count(), max_cells_of_side) : max_cells_of_side; }

std::string value_text(const Parameter& parameter, double value) {
  return concat(parameter.name, "=", parameter.has_choices() ? parameter.text_of(value) : brief_text(value));
}

void draw_map(const Findings& findings, size_t x, size_t y, Chart& chart) {
  const Space& space = findings.space;
  const Marginal marginal(findings.forest->forest, x, y);
  const ForestCube& cube = findings.forest->cube;
  const int64_t columns = cells_of(space.parameters()[x]);
  const int64_t rows = cells_of(space.parameters()[y]);
  const auto place = [](double cell, int64_t cells) { return cell / static_cast<double>(cells); };
  for (int column = 0; column < columns; ++column) {
    for (int row = 0; row < rows; ++row) {
      const double x_value = space.from_unit(x, place(column + 0.5, columns));
      const double y_value = space.from_unit(y, place(row + 0.5, rows));
      const double share = marginal.at(cube.coordinate(x, x_value), cube.coordinate(y, y_value));
      const Point corner{chart.x_of(place(column, columns)), chart.y_of(place(row + 1, rows))};
      chart.svg().rect(corner, chart.x_of(place(column + 1, columns)) - corner.x, chart.y_of(place(row, rows)) - corner.y, colour_of_rank(share),
                       concat(value_text(space.parameters()[x], x_value), " ", value_text(space.parameters()[y], y_value), ": ",
                              brief_text(findings.loss_at(share))));
    }
  }
}

}  // namespace

std::string contours_section(const Findings& findings) {
  if (!findings.forest || findings.forest->shares.pairs.empty()) return "";
  const Space& space = findings.space;
  const auto [x, y, share] = most_important_pair(findings.forest->shares);
  Chart chart(map_size, {ticks_of(space, x), space.parameters()[x].name}, {ticks_of(space, y), space.parameters()[y].name});
  draw_map(findings, x, y, chart);
  const std::vector<size_t> ranks = chosen_ranks(findings.ranked.size(), max_trials_on_map);
  for (auto rank = ranks.rbegin(); rank != ranks.rend(); ++rank) {
    const LedgerEntry& entry = *findings.ranked[*rank];
    const double x_value = entry.individual.values[x];
    const double y_value = entry.individual.values[y];
    if (std::isnan(x_value) || std::isnan(y_value)) continue;
    chart.svg().circle({chart.x_of(space.to_unit(x, x_value)), chart.y_of(space.to_unit(y, y_value))}, 3,
                       colour_of_rank(share_of_rank(*rank, findings.ranked.size())), tip_of(entry, space), {{"class", "seen"}});
  }
  return element("h2", "The two parameters that matter most") + chart.svg().in_page() +
         note(concat("The loss that the forest predicts, averaged over all other parameters, and trials. Both are coloured by rank: ",
                     "yellow is the best, violet the worst. Complete and pruned trials: ", chosen_text(ranks.size(), findings.ranked.size()), "."));
}

}  // namespace tw::search
