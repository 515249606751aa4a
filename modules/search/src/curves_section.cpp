// SPDX-License-Identifier: Apache-2.0
// Reported values of trials over their steps.
#include <algorithm>
#include <cmath>
#include <tw/base/concat.hpp>

#include "axis.hpp"
#include "chart.hpp"
#include "ranked.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr size_t max_curves = 300;
constexpr size_t max_points_of_curve = 100;  // points per curve

/// The finite reports; if there are many, a selection at equal distances that includes the last one.
std::vector<Report> points_of(const LedgerEntry& entry) {
  std::vector<Report> points;
  std::ranges::copy_if(entry.reports, std::back_inserter(points), [](const Report& report) { return std::isfinite(report.value); });
  if (points.size() <= max_points_of_curve) return points;
  std::vector<Report> fewer;
  for (size_t i = 0; i < max_points_of_curve; ++i) fewer.push_back(points[i * (points.size() - 1) / (max_points_of_curve - 1)]);
  return fewer;
}

struct LearningCurve {
  const LedgerEntry* entry;
  size_t rank;
  std::vector<Report> points;
};

}  // namespace

std::string curves_section(const Findings& findings) {
  std::vector<LearningCurve> curves;
  for (size_t rank = 0; rank < findings.ranked.size(); ++rank) {
    std::vector<Report> points = points_of(*findings.ranked[rank]);
    if (points.size() >= 2) curves.push_back({findings.ranked[rank], rank, std::move(points)});
  }
  if (curves.empty()) return "";
  const std::vector<size_t> shown = chosen_ranks(curves.size(), max_curves);
  std::vector<double> values;
  double first = curves.front().points.front().step;
  double last = first;
  for (const size_t each : shown) {
    for (const Report& point : curves[each].points) values.push_back(point.value);
    first = std::min(first, static_cast<double>(curves[each].points.front().step));
    last = std::max(last, static_cast<double>(curves[each].points.back().step));
  }
  const Axis steps(first, last, /*logarithmic=*/last >= 100 * first);
  const Axis losses = Axis::of_losses(std::move(values));
  Chart chart({.width = 940, .height = 320}, {ticks_of(steps), "step"}, {ticks_of(losses), "reported"});
  for (auto each = shown.rbegin(); each != shown.rend(); ++each) {
    const LearningCurve& curve = curves[*each];
    std::vector<Point> places;
    for (const Report& point : curve.points) {
      places.push_back({chart.x_of(steps.place(static_cast<double>(point.step))), chart.y_of(losses.place(point.value))});
    }
    const bool is_pruned = curve.entry->individual.state == TrialState::pruned;
    chart.svg().polyline(places, colour_of_rank(share_of_rank(curve.rank, findings.ranked.size())), tip_of(*curve.entry, findings.space),
                         {{"class", is_pruned ? "trial faint" : "trial"}});
  }
  return element("h2", "Learning curves") + chart.svg().in_page() +
         note(concat("Each line is a trial that has reported more than once, coloured by the rank of its loss: yellow is the best, ",
                     "violet the worst. Pruned trials are faint. Trials: ", chosen_text(shown.size(), curves.size()),
                     ". Values beyond the axis are drawn at its end."));
}

}  // namespace tw::search
