// SPDX-License-Identifier: Apache-2.0
// The best loss so far, over evaluations and over time.
#include <algorithm>
#include <functional>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/numbers.hpp>

#include "axis.hpp"
#include "chart.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr size_t max_dots = 1000;

/// One of the two charts.
class Progress {
 public:
  Progress(const Axis& x_axis, const Axis& y_axis, const std::string& x_label)
      : x_axis_(x_axis), y_axis_(y_axis), chart_({}, {ticks_of(x_axis), x_label}, {ticks_of(y_axis), "loss"}) {}

  void dot(double x, const LedgerEntry& entry, const Space& space) {
    const double loss = entry.individual.loss;
    if (y_axis_.contains(loss)) chart_.svg().circle(at(x, loss), 1.5, "#9fc5dd", tip_of(entry, space));
  }
  /// The best loss is `loss` from `x` on. Steps within half a pixel are drawn as one.
  void step(double x, double loss) {
    const Point to = at(x, loss);
    if (!curve_.empty()) curve_.push_back({to.x, curve_.back().y});
    if (curve_.size() >= 4 && to.x - curve_[curve_.size() - 4].x < 0.5) curve_.resize(curve_.size() - 2);
    curve_.push_back(to);
  }
  std::string str() {
    if (!curve_.empty()) chart_.svg().polyline(curve_, "#d55e00", "", {{"class", "curve"}});
    return chart_.svg().in_page();
  }

 private:
  Point at(double x, double loss) const { return {chart_.x_of(x_axis_.place(x)), chart_.y_of(y_axis_.place(loss))}; }

  const Axis& x_axis_;
  const Axis& y_axis_;
  Chart chart_;
  std::vector<Point> curve_;
};

using Abscissa = std::function<double(size_t i, const LedgerEntry& entry)>;

std::string progress_over(const Findings& findings, const Axis& x_axis, const Axis& y_axis, const std::string& label, size_t stride,
                          const Abscissa& place) {
  Progress progress(x_axis, y_axis, label);
  double best = std::numeric_limits<double>::infinity();
  double last = 0;
  size_t counting = 0;
  for (size_t i = 0; i < findings.ended.size(); ++i) {
    const LedgerEntry& entry = *findings.ended[i];
    last = place(i, entry);
    if (!entry.individual.has_comparable_loss()) continue;
    if (counting++ % stride == 0) progress.dot(last, entry, findings.space);
    if (entry.individual.loss >= best) continue;
    best = entry.individual.loss;
    progress.step(last, best);
  }
  progress.step(last, best);
  return progress.str();
}

}  // namespace

std::string progress_section(const Findings& findings) {
  if (findings.ranked.empty()) return "";
  std::vector<double> losses;
  for (const LedgerEntry* entry : findings.ranked) losses.push_back(entry->individual.loss);
  const Axis y_axis = Axis::of_losses(losses);
  const auto stride = static_cast<size_t>(divide_up(std::ssize(losses), max_dots));
  const auto above = std::ranges::count_if(losses, [&](double loss) { return !y_axis.contains(loss); });
  const Axis evaluations(0, static_cast<double>(findings.ended.size()), /*logarithmic=*/false);
  const Axis seconds(0, findings.clock.total(), /*logarithmic=*/false);
  const std::string charts =
      progress_over(findings, evaluations, y_axis, "evaluations", stride, [](size_t i, const LedgerEntry&) { return static_cast<double>(i + 1); }) +
      progress_over(findings, seconds, y_axis, "seconds", stride, [&](size_t, const LedgerEntry& entry) { return findings.clock.at(entry.end); });
  std::string text = "The line takes all trials into account. Dots are complete and pruned trials";
  if (stride > 1) text += concat(": thinned out, one in ", stride, " of ", losses.size());
  text += ".";
  if (above > 0) text += concat(" ", above, " losses are above the range of the charts.");
  return element("h2", "Best so far") + side_by_side(charts) + note(text);
}

}  // namespace tw::search
