// SPDX-License-Identifier: Apache-2.0
// Several objectives: trials by the first two objectives with the front of all objectives, the growth of its hypervolume, and a table of the front.
#include <algorithm>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/numbers.hpp>
#include <tw/evolution/hypervolume.hpp>

#include "axis.hpp"
#include "cells.hpp"
#include "chart.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr size_t max_front_points = 1000;
constexpr size_t max_rows = 100;
constexpr size_t max_measured = 4;  // maximum number of objectives: the cost of a hypervolume grows with it
constexpr const char* front_colour = "#d55e00";

/// A chart of numbers along two axes.
class Plane {
 public:
  Plane(Chart::Size size, const Axis& x_axis, const Axis& y_axis, const std::string& x_label, const std::string& y_label)
      : x_axis_(x_axis), y_axis_(y_axis), chart_(size, {ticks_of(x_axis), x_label}, {ticks_of(y_axis), y_label}) {}

  Point at(double x, double y) const { return {chart_.x_of(x_axis_.place(x)), chart_.y_of(y_axis_.place(y))}; }
  bool contains(double x, double y) const { return x_axis_.contains(x) && y_axis_.contains(y); }
  Svg& svg() noexcept { return chart_.svg(); }

 private:
  const Axis& x_axis_;
  const Axis& y_axis_;
  Chart chart_;
};

std::vector<double> column_of(const std::vector<const LedgerEntry*>& entries, size_t objective) {
  std::vector<double> values;
  for (const LedgerEntry* entry : entries) values.push_back(entry->individual.objectives[objective]);
  return values;
}

/// The reference point of the hypervolume: in each objective, the value that 19 of 20 trials do not exceed, so that diverged trials have no
/// influence.
std::vector<double> reference_of(const Findings& findings) {
  std::vector<double> reference;
  for (size_t i = 0; i < findings.ledger.objectives.size(); ++i) {
    std::vector<double> values = column_of(findings.ranked, i);
    std::ranges::sort(values);
    reference.push_back(values[(values.size() - 1) * 19 / 20]);
  }
  return reference;
}

std::string scatter(const Findings& findings, const std::vector<const LedgerEntry*>& front) {
  const std::vector<std::string>& names = findings.ledger.objectives;
  const Axis x_axis = Axis::of_losses(column_of(findings.ranked, 0));
  const Axis y_axis = Axis::of_losses(column_of(findings.ranked, 1));
  Plane plane({.height = 300}, x_axis, y_axis, names[0], names[1]);
  const auto dot = [&](const LedgerEntry& entry, double radius, const char* colour) {
    const std::vector<double>& values = entry.individual.objectives;
    if (plane.contains(values[0], values[1])) plane.svg().circle(plane.at(values[0], values[1]), radius, colour, tip_of(entry, findings.space));
  };
  const auto stride = static_cast<size_t>(divide_up(std::ssize(findings.ranked), max_front_points));
  for (size_t i = 0; i < findings.ranked.size(); i += stride) dot(*findings.ranked[i], 1.5, "#9fc5dd");
  for (const LedgerEntry* entry : front) dot(*entry, 3, front_colour);
  return plane.svg().in_page();
}

/// The growth of the hypervolume, as a share of the box between the best value of each objective and the reference.
std::string growth(const Findings& findings, const std::vector<const LedgerEntry*>& front) {
  const std::vector<double> reference = reference_of(findings);
  double box = 1;
  for (size_t i = 0; i < reference.size(); ++i) box *= reference[i] - std::ranges::min(column_of(front, i));
  if (!(box > 0)) return "";
  const Axis evaluations(0, static_cast<double>(findings.ended.size()), /*logarithmic=*/false);
  const Axis share(0, 1, /*logarithmic=*/false);
  Plane plane({.height = 300}, evaluations, share, "evaluations", "hypervolume");
  std::vector<ObjectiveView> best;  // the front so far
  std::vector<Point> curve{plane.at(0, 0)};
  double volume = 0;
  for (size_t i = 0; i < findings.ended.size(); ++i) {
    const Individual& each = findings.ended[i]->individual;
    if (!each.has_comparable_loss() || std::ranges::any_of(best, [&](ObjectiveView other) { return dominates(other, each.objectives); })) continue;
    volume += exclusive_hypervolume(each.objectives, best, reference) / box;
    std::erase_if(best, [&](ObjectiveView other) { return dominates(each.objectives, other); });
    best.emplace_back(each.objectives);
    const Point to = plane.at(static_cast<double>(i + 1), volume);
    curve.push_back({to.x, curve.back().y});
    curve.push_back(to);
  }
  curve.push_back(plane.at(static_cast<double>(findings.ended.size()), volume));
  plane.svg().polyline(curve, front_colour, "", {{"class", "curve"}});
  return plane.svg().in_page();
}

std::string front_table(const Findings& findings, const std::vector<const LedgerEntry*>& front) {
  std::vector<std::string> head{"trial"};
  for (const std::string& name : findings.ledger.objectives) head.push_back(name);
  for (const Parameter& each : findings.space.parameters()) head.push_back(each.name);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(front.size(), max_rows); ++i) {
    const Individual& each = front[i]->individual;
    std::vector<std::string>& row = rows.emplace_back(std::vector{concat(each.trial)});
    for (const double value : each.objectives) row.push_back(cell_text(value));
    append_cells(row, findings.space, each.values);
  }
  return table(head, rows);
}

}  // namespace

std::string front_section(const Findings& findings) {
  if (findings.ledger.objectives.size() < 2 || findings.ranked.empty()) return "";
  std::vector<Individual> all;
  for (const LedgerEntry* entry : findings.ranked) all.push_back(entry->individual);
  std::vector<const LedgerEntry*> front;
  for (const Individual* each : front_of(all)) front.push_back(findings.ledger.find(each->trial));
  std::string text = concat("Trials on the front, which no other trial dominates: ", share_text(std::min(front.size(), max_rows), front.size()),
                            ", sorted by ", findings.ledger.objectives[0], '.');
  std::string drawings = scatter(findings, front);
  if (findings.ledger.objectives.size() <= max_measured) {
    drawings += growth(findings, front);
    text += " The hypervolume is the share that the front dominates of the box between the best values and values that bound 19 of 20 trials.";
  }
  return element("h2", "Front") + side_by_side(drawings) + note(text) + front_table(findings, front);
}

}  // namespace tw::search
