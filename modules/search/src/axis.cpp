// SPDX-License-Identifier: Apache-2.0
#include "axis.hpp"

#include <algorithm>
#include <cmath>

namespace tw::search {
namespace {

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
double round_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Axis::Axis(double low, double high, bool logarithmic) : low_(low), high_(high), logarithmic_(logarithmic && low > 0) {
  if (high_ > low_) return;
  const double margin = low == 0 ? 1 : 0.5 * std::abs(low);
  low_ -= margin;
  high_ = low + margin;
}

Axis Axis::of_losses(std::vector<double> losses) {
  std::ranges::sort(losses);
  const double low = losses.front();
  double high = losses[(losses.size() - 1) * 19 / 20];
  if (!(high > low)) high = losses.back();
  return {low, high, low > 0 && high / 100 >= low};
}

double Axis::place(double value) const {
  const double within = std::clamp(value, low_, high_);
  if (logarithmic_) return (std::log(within) - std::log(low_)) / (std::log(high_) - std::log(low_));
  return (within / 2 - low_ / 2) / (high_ / 2 - low_ / 2);  // halves, since the range of all doubles overflows
}

std::vector<double> Axis::ticks() const {
  std::vector<double> ticks;
  if (logarithmic_) {
    const double low = std::ceil(std::log10(low_) - 1e-9);
    const double high = std::floor(std::log10(high_) + 1e-9);
    const double step = std::max(1.0, std::ceil((high - low) / 6));
    for (int i = 0; low + i * step <= high; ++i) ticks.push_back(std::pow(10, low + i * step));
    if (ticks.size() >= 2) return ticks;
    return {low_, high_};
  }
  const double step = round_step(high_ / 6 - low_ / 6);
  const double first = std::ceil(low_ / step - 1e-9);
  for (double i = 0; i < 20 && (first + i) * step <= high_ + 1e-9 * step; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

}  // namespace tw::search
