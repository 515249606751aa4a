// SPDX-License-Identifier: Apache-2.0
// Parallel coordinates: a line for each trial, an axis for each parameter.
#include <algorithm>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

#include "axis.hpp"
#include "ranked.hpp"
#include "report_sections.hpp"
#include "ticks.hpp"

namespace tw::search {
namespace {

constexpr double min_spacing = 80;
constexpr struct {
  double width = 960;
  double height = 260;
  double left = 40;
  double right = 90;
  double top = 90;    // for names, which are rotated
  double below = 24;  // below the axes: for lines of trials in which the parameter does not exist
} line_chart;
constexpr double turned_by = -25;
constexpr size_t max_lines = 1000;
constexpr size_t min_lines = 100;
constexpr size_t max_line_points = 40000;

class Drawing {
 public:
  explicit Drawing(const Space& space)
      : space_(space),
        spacing_(std::max(min_spacing, line_chart.width / static_cast<double>(std::max<size_t>(1, space.size())))),
        svg_(line_chart.left + spacing_ * static_cast<double>(space.size()) + line_chart.right,
             line_chart.top + line_chart.height + line_chart.below + 16) {}

  void line(const LedgerEntry& entry, double share, const Axis& losses) {
    std::vector<Point> points;
    for (size_t i = 0; i < space_.size(); ++i) points.push_back({x_of(i), y_of(i, entry.individual.values[i])});
    points.push_back({x_of(space_.size()), y_at(losses.place(entry.individual.loss))});
    svg_.polyline(points, colour_of_rank(share), tip_of(entry, space_), {{"class", "trial"}});
  }

  void axes(const Axis& losses) {
    for (size_t i = 0; i <= space_.size(); ++i) {
      svg_.line({x_of(i), line_chart.top}, {x_of(i), line_chart.top + line_chart.height}, "#888888");
      const Point at{x_of(i), line_chart.top - 18};
      svg_.text(at, "start", i == space_.size() ? "loss" : space_.parameters()[i].name, {report::turned(turned_by, at)});
    }
    for (size_t i = 0; i < space_.size(); ++i) labels(i);
    for (const double tick : losses.ticks()) svg_.text({x_of(space_.size()) + 6, y_at(losses.place(tick)) + 4}, "start", brief_text(tick));
  }

  std::string str() const { return svg_.in_page(); }

 private:
  double x_of(size_t axis) const { return line_chart.left + spacing_ * static_cast<double>(axis); }

  static double y_at(double place) { return line_chart.top + line_chart.height * (1 - place); }

  double y_of(size_t index, double value) const {
    if (std::isnan(value)) return line_chart.top + line_chart.height + line_chart.below;
    return y_at(space_.to_unit(index, value));
  }

  void labels(size_t index) {
    const Parameter& parameter = space_.parameters()[index];
    if (!parameter.parent.empty()) svg_.text({x_of(index) + 4, line_chart.top + line_chart.height + line_chart.below + 4}, "start", "none");
    if (!parameter.has_choices()) {
      svg_.text({x_of(index) + 4, line_chart.top + line_chart.height + 12}, "start", brief_text(parameter.low));
      svg_.text({x_of(index) + 4, line_chart.top - 4}, "start", brief_text(parameter.high));
      return;
    }
    for (const Tick& tick : ticks_of(space_, index)) svg_.text({x_of(index) + 4, y_at(tick.place) + 4}, "start", tick.label);
  }

  const Space& space_;
  double spacing_;
  Svg svg_;
};

}  // namespace

std::string parallel_section(const Findings& findings) {
  const auto& ranked = findings.ranked;
  if (ranked.empty()) return "";
  std::vector<double> losses;
  for (const LedgerEntry* entry : ranked) losses.push_back(entry->individual.loss);
  const Axis axis = Axis::of_losses(losses);
  const std::vector<size_t> shown = chosen_ranks(ranked.size(), std::clamp(max_line_points / (findings.space.size() + 1), min_lines, max_lines));
  Drawing drawing(findings.space);
  for (auto rank = shown.rbegin(); rank != shown.rend(); ++rank) {
    drawing.line(*ranked[*rank], share_of_rank(*rank, ranked.size()), axis);
  }
  drawing.axes(axis);
  const std::string text =
      concat("Each line is a trial, coloured by the rank of its loss: yellow is the best, violet the worst. Complete and pruned trials: ",
             chosen_text(shown.size(), ranked.size()), ". Losses beyond the axis are drawn at its end.");
  return element("h2", "Configurations") + drawing.str() + note(text);
}

}  // namespace tw::search
