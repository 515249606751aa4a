// SPDX-License-Identifier: Apache-2.0
// Parallel coordinates: a line for each trial, an axis for each parameter.
#include <algorithm>
#include <array>
#include <cmath>
#include <tw/base/concat.hpp>

#include "axis.hpp"
#include "finite_text.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr double least_spacing = 80;
constexpr struct {
  double width = 960;
  double height = 260;
  double left = 40;
  double right = 90;
  double top = 90;    // names, turned
  double below = 24;  // of the axes: where lines go whose parameter does not exist
} line_chart;
constexpr double turned_by = -25;
constexpr size_t most_lines = 1000;
constexpr size_t least_lines = 100;
constexpr size_t most_points = 40000;
constexpr size_t most_choices = 12;  // that get a label each

// From the best to the worst: seven colours of viridis. Ref: Smith & van der Walt 2015.
constexpr std::array<std::array<double, 3>, 7> colours{
    {{253, 231, 37}, {144, 215, 67}, {53, 183, 121}, {33, 145, 140}, {49, 104, 142}, {68, 57, 131}, {68, 1, 84}}};

/// @param share 0 for the best, 1 for the worst
std::string colour_at(double share) {
  const double at = share * (colours.size() - 1);
  const auto from = std::min(static_cast<size_t>(at), colours.size() - 2);
  const double part = at - static_cast<double>(from);
  std::string text = "rgb(";
  for (size_t i = 0; i < 3; ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(std::lround((1 - part) * colours[from][i] + part * colours[from + 1][i]));
  }
  return text + ')';
}

/// The best ones, and of the others evenly many from all ranks. From the best.
std::vector<size_t> chosen_ranks(size_t all, size_t most) {
  std::vector<size_t> ranks;
  const size_t best = all <= most ? all : most / 5;
  for (size_t rank = 0; rank < best; ++rank) ranks.push_back(rank);
  const size_t others = std::min(all, most) - best;
  for (size_t i = 0; i < others; ++i) ranks.push_back(best + (all - best - 1) * i / (others - 1));
  return ranks;
}

class Drawing {
 public:
  explicit Drawing(const Space& space)
      : space_(space),
        spacing_(std::max(least_spacing, line_chart.width / static_cast<double>(std::max<size_t>(1, space.size())))),
        svg_(line_chart.left + spacing_ * static_cast<double>(space.size()) + line_chart.right,
             line_chart.top + line_chart.height + line_chart.below + 16) {}

  void line(const LedgerEntry& entry, double share, const Axis& losses) {
    std::vector<Point> points;
    for (size_t i = 0; i < space_.size(); ++i) points.push_back({x_of(i), y_of(i, entry.individual.values[i])});
    points.push_back({x_of(space_.size()), line_chart.top + line_chart.height * (1 - losses.place(entry.individual.loss))});
    svg_.polyline(points, colour_at(share), tip_of(entry, space_), {{"class", "trial"}});
  }

  void axes(const Axis& losses) {
    for (size_t i = 0; i <= space_.size(); ++i) {
      svg_.line({x_of(i), line_chart.top}, {x_of(i), line_chart.top + line_chart.height}, "#888888");
      const Point at{x_of(i), line_chart.top - 18};
      svg_.text(at, "start", i == space_.size() ? "loss" : space_.parameters()[i].name, {report::turned(turned_by, at)});
    }
    for (size_t i = 0; i < space_.size(); ++i) labels(i);
    for (const double tick : losses.ticks())
      svg_.text({x_of(space_.size()) + 6, line_chart.top + line_chart.height * (1 - losses.place(tick)) + 4}, "start", brief_text(tick));
  }

  std::string str() const { return svg_.in_page(); }

 private:
  double x_of(size_t axis) const { return line_chart.left + spacing_ * static_cast<double>(axis); }

  double y_of(size_t index, double value) const {
    if (std::isnan(value)) return line_chart.top + line_chart.height + line_chart.below;
    const Parameter& parameter = space_.parameters()[index];
    const double place = parameter.has_choices() ? (value + 0.5) / static_cast<double>(parameter.choices.size()) : space_.to_unit(index, value);
    return line_chart.top + line_chart.height * (1 - place);
  }

  void labels(size_t index) {
    const Parameter& parameter = space_.parameters()[index];
    if (!parameter.parent.empty()) svg_.text({x_of(index) + 4, line_chart.top + line_chart.height + line_chart.below + 4}, "start", "none");
    if (!parameter.has_choices()) {
      svg_.text({x_of(index) + 4, line_chart.top + line_chart.height + 12}, "start", brief_text(parameter.low));
      svg_.text({x_of(index) + 4, line_chart.top - 4}, "start", brief_text(parameter.high));
      return;
    }
    const size_t stride = (parameter.choices.size() + most_choices - 1) / most_choices;
    for (size_t i = 0; i < parameter.choices.size(); i += stride) {
      svg_.text({x_of(index) + 4, y_of(index, static_cast<double>(i)) + 4}, "start", parameter.choices[i]);
    }
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
  const std::vector<size_t> shown = chosen_ranks(ranked.size(), std::clamp(most_points / (findings.space.size() + 1), least_lines, most_lines));
  Drawing drawing(findings.space);
  for (auto rank = shown.rbegin(); rank != shown.rend(); ++rank) {
    drawing.line(*ranked[*rank], static_cast<double>(*rank) / static_cast<double>(std::max<size_t>(1, ranked.size() - 1)), axis);
  }
  drawing.axes(axis);
  std::string note = concat("A line a trial, coloured by the rank of its loss: yellow the best, violet the worst. Complete and pruned trials: ",
                            share_text(shown.size(), ranked.size()));
  if (shown.size() < ranked.size()) note += concat(", thinned out: the best ", shown.size() / 5, ", and others from all ranks");
  note += ". Losses beyond the axis are at its end.";
  return element("h2", "Configurations") + drawing.str() + "<p class=\"note\">" + escaped(note) + "</p>\n";
}

}  // namespace tw::search
