// SPDX-License-Identifier: Apache-2.0
#include "ticks.hpp"

#include <cmath>
#include <tw/base/number_text.hpp>
#include <tw/base/numbers.hpp>

namespace tw::search {
namespace {

constexpr size_t max_choices = 12;

}  // namespace

std::vector<Tick> ticks_of(const Axis& axis) {
  std::vector<Tick> ticks;
  for (const double value : axis.ticks()) ticks.push_back({axis.place(value), brief_text(value)});
  return ticks;
}

std::vector<Tick> ticks_of(const Space& space, size_t index) {
  const Parameter& parameter = space.parameters()[index];
  std::vector<Tick> ticks;
  if (parameter.has_choices()) {
    const auto stride = static_cast<size_t>(divide_up(std::ssize(parameter.choices), max_choices));
    for (size_t i = 0; i < parameter.choices.size(); i += stride)
      ticks.push_back({space.to_unit(index, static_cast<double>(i)), parameter.choices[i]});
    return ticks;
  }
  for (const double value : Axis(parameter.low, parameter.high, parameter.scale == Scale::logarithmic).ticks()) {
    const bool is_value =
        value >= parameter.low && value <= parameter.high && (parameter.kind != Parameter::Kind::integer || value == std::round(value));
    if (is_value) ticks.push_back({space.to_unit(index, value), brief_text(value)});
  }
  return ticks;
}

}  // namespace tw::search
