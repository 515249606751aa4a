// SPDX-License-Identifier: Apache-2.0
#include "chart.hpp"

#include "shortened.hpp"

namespace tw::search {
namespace {

constexpr struct {
  double left = 70;
  double right = 20;
  double top = 12;
  double bottom = 44;
} margin;
constexpr size_t longest_label = 12;
constexpr const char* grid_colour = "#e4e4e4";

}  // namespace

Chart::Chart(Size size, const Side& below, const Side& left)
    : size_(size), svg_(margin.left + size.width + margin.right, margin.top + size.height + margin.bottom) {
  for (const Tick& tick : below.ticks) {
    svg_.line({x_of(tick.place), y_of(0)}, {x_of(tick.place), y_of(1)}, grid_colour);
    svg_.text({x_of(tick.place), y_of(0) + 16}, "middle", shortened(tick.label, longest_label));
  }
  for (const Tick& tick : left.ticks) {
    svg_.line({x_of(0), y_of(tick.place)}, {x_of(1), y_of(tick.place)}, grid_colour);
    svg_.text({x_of(0) - 6, y_of(tick.place) + 4}, "end", shortened(tick.label, longest_label));
  }
  svg_.text({x_of(0.5), y_of(0) + 36}, "middle", below.label);
  const report::Point middle{12, y_of(0.5)};
  svg_.text(middle, "middle", left.label, {report::turned(-90, middle)});
}

double Chart::x_of(double place) const { return margin.left + size_.width * place; }
double Chart::y_of(double place) const { return margin.top + size_.height * (1 - place); }

}  // namespace tw::search
