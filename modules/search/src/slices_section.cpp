// SPDX-License-Identifier: Apache-2.0
// The loss over each single parameter.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

#include "axis.hpp"
#include "chart.hpp"
#include "ranked.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr Chart::Size slice{.width = 250, .height = 170};
constexpr size_t max_slices = 30;
constexpr size_t max_dots_of_all = 9000;
constexpr size_t max_dots_of_one = 1000;

/// From pale to dark blue. @param share 0 for the first trial, 1 for the last
std::string colour_of_age(double share) {
  const auto mixed = [&](double pale, double dark) { return std::lround(pale + share * (dark - pale)); };
  return concat("rgb(", mixed(190, 8), ",", mixed(215, 48), ",", mixed(235, 107), ")");
}

/// The most important parameter first, if the importance is known.
std::vector<size_t> parameters_shown(const Findings& findings) {
  std::vector<size_t> order(findings.space.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (findings.forest) std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return findings.forest->shares.alone[i]; });
  order.resize(std::min(order.size(), max_slices));
  return order;
}

/// The losses that the forest predicts for the values of a parameter, averaged over all other parameters.
std::vector<Point> predicted(const Findings& findings, size_t index, const Chart& chart, const Axis& losses) {
  const Marginal marginal(findings.forest->forest, index);
  std::vector<Point> line;
  for (size_t cell = 0; cell < Marginal::cells; ++cell) {
    const double place = (static_cast<double>(cell) + 0.5) / Marginal::cells;
    const double share = marginal.at(findings.forest->cube.coordinate(index, findings.space.from_unit(index, place)));
    line.push_back({chart.x_of(place), chart.y_of(losses.place(findings.loss_at(share)))});
  }
  return line;
}

std::string slice_of(const Findings& findings, size_t index, const std::vector<size_t>& ranks, const Axis& losses) {
  Chart chart(slice, {ticks_of(findings.space, index), findings.space.parameters()[index].name}, {ticks_of(losses), "loss"});
  for (const size_t rank : ranks) {
    const Individual& each = findings.ranked[rank]->individual;
    const double value = each.values[index];
    if (std::isnan(value) || !losses.contains(each.loss)) continue;
    const double age = static_cast<double>(each.trial) / static_cast<double>(std::max<int64_t>(1, findings.ledger.next_trial - 1));
    chart.svg().circle({chart.x_of(findings.space.to_unit(index, value)), chart.y_of(losses.place(each.loss))}, 2, colour_of_age(age),
                       concat("trial ", each.trial, ", loss ", brief_text(each.loss)));
  }
  if (findings.forest) chart.svg().polyline(predicted(findings, index, chart, losses), "#d55e00", "", {{"class", "curve"}});
  return chart.svg().in_page();
}

}  // namespace

std::string slices_section(const Findings& findings) {
  if (findings.ranked.empty()) return "";
  std::vector<double> all_losses;
  for (const LedgerEntry* entry : findings.ranked) all_losses.push_back(entry->individual.loss);
  const Axis losses = Axis::of_losses(all_losses);
  const auto beyond = std::ranges::count_if(all_losses, [&](double loss) { return !losses.contains(loss); });
  const std::vector<size_t> parameters = parameters_shown(findings);
  const std::vector<size_t> ranks = chosen_ranks(findings.ranked.size(), std::min(max_dots_of_one, max_dots_of_all / parameters.size()));
  std::string slices;
  for (const size_t index : parameters) slices += slice_of(findings, index, ranks, losses);
  std::string text =
      concat("Each dot is a trial; later trials are darker. Complete and pruned trials: ", chosen_text(ranks.size(), findings.ranked.size()), ".");
  if (beyond > 0) text += concat(" ", beyond, " losses are above the range of the charts.");
  if (findings.forest) text += " The line is the loss that the forest of the next section predicts, averaged over all other parameters.";
  if (parameters.size() < findings.space.size()) {
    text += concat(" Parameters: ", share_text(parameters.size(), findings.space.size()), findings.forest ? ", the most important." : ", the first.");
  }
  return element("h2", "Slices") + side_by_side(slices) + note(text);
}

}  // namespace tw::search
