// SPDX-License-Identifier: Apache-2.0
// Best so far, over evaluations and over time.
#include <algorithm>
#include <functional>
#include <limits>
#include <tw/base/concat.hpp>

#include "axis.hpp"
#include "finite_text.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr struct {
  double width = 440;
  double height = 240;
  double left = 70;
  double right = 20;
  double top = 12;
  double bottom = 44;
} dot_chart;
constexpr size_t most_dots = 1000;

/// One of the two charts.
class Chart {
 public:
  Chart(const Axis& x_axis, const Axis& y_axis, const std::string& x_label)
      : x_axis_(x_axis),
        y_axis_(y_axis),
        svg_(dot_chart.left + dot_chart.width + dot_chart.right, dot_chart.top + dot_chart.height + dot_chart.bottom) {
    for (const double tick : x_axis_.ticks()) {
      svg_.line({x_of(tick), dot_chart.top}, {x_of(tick), dot_chart.top + dot_chart.height}, "#e4e4e4");
      svg_.text({x_of(tick), dot_chart.top + dot_chart.height + 16}, "middle", brief_text(tick));
    }
    for (const double tick : y_axis_.ticks()) {
      svg_.line({dot_chart.left, y_of(tick)}, {dot_chart.left + dot_chart.width, y_of(tick)}, "#e4e4e4");
      svg_.text({dot_chart.left - 6, y_of(tick) + 4}, "end", brief_text(tick));
    }
    svg_.text({dot_chart.left + dot_chart.width / 2, dot_chart.top + dot_chart.height + 36}, "middle", x_label);
    const Point middle{12, dot_chart.top + dot_chart.height / 2};
    svg_.text(middle, "middle", "loss", {report::turned(-90, middle)});
  }

  void dot(double x, const LedgerEntry& entry, const Space& space) {
    const double loss = entry.individual.loss;
    if (y_axis_.contains(loss)) svg_.circle({x_of(x), y_of(loss)}, 1.5, "#9fc5dd", tip_of(entry, space));
  }
  /// The best is `loss` from `x` on. What would be drawn within a pixel is drawn once.
  void step(double x, double loss) {
    const Point to{x_of(x), y_of(loss)};
    if (!curve_.empty()) curve_.push_back({to.x, curve_.back().y});
    if (curve_.size() >= 4 && to.x - curve_[curve_.size() - 4].x < 0.5) curve_.resize(curve_.size() - 2);
    curve_.push_back(to);
  }
  std::string str() {
    if (!curve_.empty()) svg_.polyline(curve_, "#d55e00", "", {{"class", "curve"}});
    return svg_.in_page();
  }

 private:
  double x_of(double value) const { return dot_chart.left + dot_chart.width * x_axis_.place(value); }
  double y_of(double value) const { return dot_chart.top + dot_chart.height * (1 - y_axis_.place(value)); }

  const Axis& x_axis_;
  const Axis& y_axis_;
  Svg svg_;
  std::vector<Point> curve_;
};

using Abscissa = std::function<double(size_t i, const LedgerEntry& entry)>;

std::string chart(const Findings& findings, const Axis& x_axis, const Axis& y_axis, const std::string& label, size_t stride, const Abscissa& place) {
  Chart chart(x_axis, y_axis, label);
  double best = std::numeric_limits<double>::infinity();
  double last = 0;
  size_t counting = 0;
  for (size_t i = 0; i < findings.ended.size(); ++i) {
    const LedgerEntry& entry = *findings.ended[i];
    last = place(i, entry);
    if (!entry.individual.counts()) continue;
    if (counting++ % stride == 0) chart.dot(last, entry, findings.space);
    if (entry.individual.loss >= best) continue;
    best = entry.individual.loss;
    chart.step(last, best);
  }
  chart.step(last, best);
  return chart.str();
}

}  // namespace

std::string progress_section(const Findings& findings) {
  if (findings.ranked.empty()) return "";
  std::vector<double> losses;
  for (const LedgerEntry* entry : findings.ranked) losses.push_back(entry->individual.loss);
  const Axis y_axis = Axis::of_losses(losses);
  const size_t stride = (losses.size() + most_dots - 1) / most_dots;
  const auto above = std::ranges::count_if(losses, [&](double loss) { return !y_axis.contains(loss); });
  const Axis evaluations(0, static_cast<double>(findings.ended.size()), /*logarithmic=*/false);
  const Axis seconds(0, findings.clock.total(), /*logarithmic=*/false);
  std::string html = element("h2", "Best so far");
  html += chart(findings, evaluations, y_axis, "evaluations", stride, [](size_t i, const LedgerEntry&) { return static_cast<double>(i + 1); });
  html += chart(findings, seconds, y_axis, "seconds", stride, [&](size_t, const LedgerEntry& entry) { return findings.clock.at(entry.end); });
  std::string note = "The line has all trials. Dots are complete and pruned ones";
  if (stride > 1) note += concat(": thinned out, one in ", stride, " of ", losses.size());
  note += ".";
  if (above > 0) note += concat(" ", above, " losses lie above the charts.");
  return html + "<p class=\"note\">" + escaped(note) + "</p>\n";
}

}  // namespace tw::search
