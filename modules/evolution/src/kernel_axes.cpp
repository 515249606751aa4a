// SPDX-License-Identifier: Apache-2.0
#include "kernel_axes.hpp"

#include <cmath>

namespace tw::search {
namespace {

constexpr int64_t max_values = 64;

KernelAxis axis_of(const Space& space, size_t index) {
  const Parameter& p = space.parameters()[index];
  const int64_t count = p.count();
  const bool log_steps = p.step > 0 && p.scale == Scale::logarithmic;
  if (count == 0 || log_steps || (count > max_values && p.kind != Parameter::Kind::categorical)) return {};
  KernelAxis axis{.ordered = p.kind != Parameter::Kind::categorical};
  for (int64_t k = 0; k < count; ++k) {
    const auto at = static_cast<double>(k);
    const double share = 1 / static_cast<double>(count);
    if (p.kind == Parameter::Kind::integer) {
      axis.places.push_back(space.to_unit(index, p.low + at));
      axis.shares.push_back(space.to_unit(index, p.low + at + 0.5) - space.to_unit(index, p.low + at - 0.5));
    } else {
      axis.places.push_back((at + 0.5) * share);
      axis.shares.push_back(share);
    }
  }
  return axis;
}

}  // namespace

KernelAxes::KernelAxes(const Space& space) : space_(space) {
  for (size_t i = 0; i < space.size(); ++i) axes_.push_back(axis_of(space, i));
}

std::vector<double> KernelAxes::coordinates_of(const std::vector<double>& values) const {
  std::vector<double> coordinates = values;
  for (size_t i = 0; i < values.size(); ++i) {
    const Parameter& p = space_.parameters()[i];
    if (std::isnan(values[i])) continue;
    if (axes_[i].is_continuum()) {
      coordinates[i] = space_.to_unit(i, values[i]);
    } else if (!p.has_choices()) {
      coordinates[i] = std::round((values[i] - p.low) / (p.step > 0 ? p.step : 1));
    }
  }
  return coordinates;
}

double KernelAxes::value_of(size_t axis, double coordinate) const {
  if (axes_[axis].is_continuum()) return space_.from_unit(axis, coordinate);
  return space_.from_unit(axis, axes_[axis].places[static_cast<size_t>(coordinate)]);
}

}  // namespace tw::search
