// SPDX-License-Identifier: Apache-2.0
#include "gp_coordinates.hpp"

#include <algorithm>
#include <cmath>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int64_t min_values_of_smooth = 8;
constexpr double max_redrawn = 0.3;

double step_of(const Parameter& p) { return p.step > 0 ? p.step : 1; }

/// Index of this value among the parameter's values.
int64_t choice_of(const Parameter& p, double value) {
  return static_cast<int64_t>(p.has_choices() ? value : std::round((value - p.low) / step_of(p)));
}

}  // namespace

GpCoordinates::GpCoordinates(const Space& space) : space_(space) {
  std::vector<double> mixable;
  for (size_t i = 0; i < space.size(); ++i) {
    const Parameter& p = space.parameters()[i];
    first_.push_back(size());
    group_.insert(group_.end(), p.kind == Parameter::Kind::categorical ? p.choices.size() : 1, static_cast<Index>(i));
    const bool smooth = p.kind != Parameter::Kind::categorical && (p.count() == 0 || p.count() >= min_values_of_smooth);
    smooth_.push_back(smooth);
    if (p.kind == Parameter::Kind::categorical) {
      for (Index d = first_.back(); d < size(); ++d) choices_.push_back(d);
    }
    mixable.resize(group_.size(), smooth && p.parent.empty() ? 1 : 0);
  }
  mixable_ = Eigen::Map<const VectorXd>(mixable.data(), size());
}

VectorXd GpCoordinates::position_of(const std::vector<double>& values) const {
  const std::vector<double> position = space_.encode(values);
  return Eigen::Map<const VectorXd>(position.data(), static_cast<Index>(position.size()));
}

std::vector<double> GpCoordinates::values_of(const VectorXd& position) const {
  return space_.decode(std::vector<double>(position.data(), position.data() + position.size()));
}

void GpCoordinates::choose(size_t parameter, int64_t choice, VectorXd& position) const {
  const Parameter& p = space_.parameters()[parameter];
  if (p.kind == Parameter::Kind::categorical) {
    position.segment(first_[parameter], static_cast<Index>(p.choices.size())).setZero();
    position[first_[parameter] + choice] = 1;
  } else {
    position[first_[parameter]] =
        space_.to_unit(parameter, p.has_choices() ? static_cast<double>(choice) : p.low + static_cast<double>(choice) * step_of(p));
  }
}

void GpCoordinates::draw(size_t parameter, VectorXd& position, CounterRng& random) const {
  if (smooth_[parameter]) {
    position[first_[parameter]] = uniform(random);
  } else {
    choose(parameter, static_cast<int64_t>(index_below(random, static_cast<size_t>(space_.parameters()[parameter].count()))), position);
  }
}

VectorXd GpCoordinates::movable(const VectorXd& position) const {
  VectorXd movable(size());
  const std::vector<double> values = values_of(position);
  for (Index d = 0; d < size(); ++d) movable[d] = is_smooth(d) && !std::isnan(values[static_cast<size_t>(group_[static_cast<size_t>(d)])]) ? 1 : 0;
  return movable;
}

VectorXd GpCoordinates::random(CounterRng& random) const {
  VectorXd position(size());
  for (size_t i = 0; i < space_.size(); ++i) draw(i, position, random);
  return snapped(position);
}

VectorXd GpCoordinates::random_near(const VectorXd& centre, const VectorXd& shift, double share, CounterRng& random) const {
  VectorXd position = centre;
  const std::vector<double> values = values_of(centre);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool missing = std::isnan(values[i]);
    if (missing || (!smooth_[i] && bernoulli(random, std::min(share, max_redrawn)))) {
      draw(i, position, random);
    } else if (smooth_[i]) {
      double& x = position[first_[i]];
      x = std::clamp(x + shift[first_[i]], 0.0, 1.0);
      // A small shift would not change a whole number.
      const int64_t count = space_.parameters()[i].count();
      if (count > 0 && bernoulli(random, max_redrawn)) x = std::clamp(x + uniform(random, -1, 1) / static_cast<double>(count), 0.0, 1.0);
    }
  }
  return snapped(position);
}

std::vector<VectorXd> GpCoordinates::exchanges(const VectorXd& position) const {
  std::vector<VectorXd> all;
  const std::vector<double> values = values_of(position);
  for (size_t i = 0; i < values.size(); ++i) {
    if (smooth_[i] || std::isnan(values[i])) continue;
    const Parameter& p = space_.parameters()[i];
    const int64_t count = p.count();
    for (int64_t step = 1; step < std::min(count, min_values_of_smooth); ++step) {
      VectorXd other = position;
      choose(i, (choice_of(p, values[i]) + step) % count, other);
      all.push_back(snapped(other));
    }
  }
  return all;
}

double GpCoordinates::length(const VectorXd& difference) const {
  double largest = 0;
  for (Index d = 0; d < size(); ++d) {
    if (is_smooth(d)) largest = std::max(largest, std::abs(difference[d]));
  }
  return largest;
}

bool GpCoordinates::are_near(const VectorXd& a, const VectorXd& b, const VectorXd& width) const {
  for (Index d = 0; d < size(); ++d) {
    if (is_smooth(d) ? std::abs(a[d] - b[d]) > width[d] : a[d] != b[d]) return false;
  }
  return true;
}

}  // namespace tw::search
