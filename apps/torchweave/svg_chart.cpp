// SPDX-License-Identifier: Apache-2.0
#include "svg_chart.hpp"

#include "bench_figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tw/base/number_text.hpp>
#include <tw/base/numbers.hpp>
#include <tw/report/svg.hpp>

namespace tw::tool {
namespace {

// In pixels.
constexpr double panel_width = 250;
constexpr double panel_height = 170;
constexpr double left_margin = 66;  // of a panel: y labels
constexpr double right_margin = 26;
constexpr double top_margin = 26;     // of a panel: its title
constexpr double bottom_margin = 42;  // of a panel: x labels
constexpr double head_height = 64;    // of the chart: title and legend
constexpr double character_width = 7;
constexpr size_t columns = 3;

// Colours that the colour-blind can tell apart. Ref: Okabe & Ito 2008.
constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};

// A label of the y axis: 1e-5, 0.001, 20, 1000.
std::string number_text(double value) {
  const double power = std::floor(std::log10(value * (1 + 1e-9)));
  if (power >= -3 && power <= 4) return brief_text(value, 6);
  return fixed_text(value / std::pow(10, power), 0) + 'e' + fixed_text(power, 0);
}

size_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

/// Positive values on a logarithmic axis.
struct Axis {
  double low = HUGE_VAL;
  double high = 0;

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return high == 0; }
  /// 0 at the low end, 1 at the high end.
  double place(double value) const { return std::log(value / low) / std::log(high / low); }
  bool contains(double value) const { return value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9); }
};

// Powers of 2, few enough for their labels: 1 B, 16 B, 256 B, 4 KiB...
std::vector<double> byte_ticks(const Axis& axis) {
  constexpr double most = 6;
  const double powers = std::log2(axis.high / axis.low);
  int step = 1;
  for (const int larger : {2, 4, 5, 10}) {
    if (powers / step >= most) step = larger;
  }
  std::vector<double> ticks;
  for (int power = 0; power < 63; power += step) {
    if (axis.contains(std::exp2(power))) ticks.push_back(std::exp2(power));
  }
  return ticks;
}

// 1, 10, 100...; where these are few, also 2 and 5 times them. The axis begins and ends at one of them.
std::vector<double> decimal_ticks(Axis& axis) {
  const bool few = axis.high / axis.low < 500;
  const std::vector<double> factors = few ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  std::vector<double> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(axis.low))); power <= static_cast<int>(std::ceil(std::log10(axis.high))); ++power) {
    for (const double factor : factors) ticks.push_back(factor * std::pow(10, power));
  }
  const auto first = std::prev(std::upper_bound(ticks.begin(), ticks.end(), axis.low * (1 + 1e-9)));
  const auto last = std::lower_bound(ticks.begin(), ticks.end(), axis.high * (1 - 1e-9));
  ticks = std::vector<double>(first, std::next(last));
  axis = {ticks.front(), ticks.back()};
  return ticks;
}

}  // namespace

/// One chart being drawn.
class SvgChart::Drawing {
 public:
  explicit Drawing(const SvgChart& chart) : chart_(chart) {
    for (const Panel& panel : chart.panels_) {
      for (const Line& line : panel.lines) {
        for (const Point point : line.points) {
          x_axis_.include(point.x);
          y_axis_.include(point.y);
        }
      }
    }
    if (x_axis_.is_empty()) return;
    if (x_axis_.high < 2 * x_axis_.low) x_axis_ = {x_axis_.low / 2, x_axis_.high * 2};  // if there is only one size
    if (y_axis_.high < 2 * y_axis_.low) y_axis_ = {y_axis_.low / 2, y_axis_.high * 2};
    x_ticks_ = byte_ticks(x_axis_);
    y_ticks_ = decimal_ticks(y_axis_);
  }

  std::string draw() {
    const size_t across = std::clamp<size_t>(chart_.panels_.size(), 1, columns);
    const auto down = static_cast<size_t>(divide_up(std::ssize(chart_.panels_), columns));
    const double width = std::max(static_cast<double>(across) * cell_width(), head_width());
    const double height = head_height + std::max<double>(0, static_cast<double>(down) * cell_height());
    svg_.emplace(width, height);
    svg_->text({left_margin / 2, 24}, "start", chart_.title_, {{"font-size", "15"}, bold_});
    draw_legend();
    for (size_t i = 0; i < chart_.panels_.size(); ++i) {
      const size_t row = i / columns;
      const size_t column = i % columns;
      left_ = static_cast<double>(column) * cell_width() + left_margin;
      top_ = head_height + static_cast<double>(row) * cell_height() + top_margin;
      draw_axes(/*leftmost=*/column == 0);
      draw_panel(chart_.panels_[i]);
    }
    return svg_->file();
  }

 private:
  static double cell_width() { return left_margin + panel_width + right_margin; }
  static double cell_height() { return top_margin + panel_height + bottom_margin; }
  double x_of(double value) const { return left_ + x_axis_.place(value) * panel_width; }
  double y_of(double value) const { return top_ + (1 - y_axis_.place(value)) * panel_height; }
  static double legend_width(const std::string& name) { return 50 + character_width * static_cast<double>(name.size()); }

  double head_width() const {
    double legend = left_margin;
    for (const std::string& name : chart_.names_) legend += legend_width(name);
    return std::max(legend, left_margin + 9 * static_cast<double>(chart_.title_.size()));
  }

  static const char* colour_of(size_t name) { return colours[name % colours.size()]; }

  void draw_legend() {
    double x = left_margin / 2;
    for (size_t name = 0; name < chart_.names_.size(); ++name) {
      svg_->line({x, 46}, {x + 24, 46}, colour_of(name), {{"stroke-width", 2}});
      mark({x + 12, 46}, name);
      svg_->text({x + 30, 50}, "start", chart_.names_[name]);
      x += legend_width(chart_.names_[name]);
    }
  }

  void draw_axes(bool leftmost) {
    const double bottom = top_ + panel_height;
    for (const double tick : x_ticks_) {
      svg_->line({x_of(tick), top_}, {x_of(tick), bottom}, "#e4e4e4");
      svg_->text({x_of(tick), bottom + 16}, "middle", size_text(static_cast<int64_t>(tick)), {small_});
    }
    for (const double tick : y_ticks_) {
      svg_->line({left_, y_of(tick)}, {left_ + panel_width, y_of(tick)}, "#e4e4e4");
      svg_->text({left_ - 6, y_of(tick) + 4}, "end", number_text(tick), {small_});
    }
    svg_->line({left_, top_}, {left_, bottom}, "#888");
    svg_->line({left_, bottom}, {left_ + panel_width, bottom}, "#888");
    svg_->text({left_ + panel_width / 2, bottom + 33}, "middle", chart_.x_label_, {small_});
    if (!leftmost) return;
    const report::Point middle{14, top_ + panel_height / 2};
    svg_->text(middle, "middle", chart_.y_label_, {small_, report::turned(-90, middle)});
  }

  void draw_panel(const Panel& panel) {
    svg_->text({left_, top_ - 8}, "start", panel.title, {bold_});
    for (const Line& line : panel.lines) {
      std::vector<report::Point> points;
      for (const Point point : line.points) points.push_back({x_of(point.x), y_of(point.y)});
      svg_->polyline(points, colour_of(line.name), "", {{"stroke-width", 2}});
      for (const report::Point point : points) mark(point, line.name);
    }
  }
  void mark(report::Point at, size_t name) { svg_->circle(at, 2.5, colour_of(name)); }

  const report::Attribute small_{"font-size", "11"};
  const report::Attribute bold_{"font-weight", "bold"};
  const SvgChart& chart_;
  Axis x_axis_;
  Axis y_axis_;
  std::vector<double> x_ticks_;
  std::vector<double> y_ticks_;
  double left_ = 0;  // of the panel being drawn
  double top_ = 0;
  std::optional<report::Svg> svg_;
};

SvgChart::SvgChart(std::string title, std::string x_label, std::string y_label)
    : title_(std::move(title)), x_label_(std::move(x_label)), y_label_(std::move(y_label)) {}

void SvgChart::add(const std::string& panel, const std::string& line, double x, double y) {
  if (!(x > 0) || !(y > 0) || !std::isfinite(x) || !std::isfinite(y)) return;
  const size_t name = index_of(names_, line);
  auto place = std::find_if(panels_.begin(), panels_.end(), [&](const Panel& other) { return other.title == panel; });
  if (place == panels_.end()) place = panels_.insert(place, {panel, {}});
  auto& lines = place->lines;
  auto mine = std::find_if(lines.begin(), lines.end(), [&](const Line& other) { return other.name == name; });
  if (mine == lines.end()) mine = lines.insert(mine, {name, {}});
  mine->points.push_back({x, y});
}

std::string SvgChart::draw() const { return Drawing(*this).draw(); }

}  // namespace tw::tool
