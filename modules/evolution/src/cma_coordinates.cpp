// SPDX-License-Identifier: Apache-2.0
#include "cma_coordinates.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tw/evolution/draws.hpp>

#include "box_transform.hpp"

namespace tw::search {
namespace {

using Eigen::Index;
using Kind = Parameter::Kind;

/// The q with P(X > q) = p for a standard normal X, by bisection. @param p below 0.5
double upper_quantile(double p) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 60; ++i) {
    const double q = (low + high) / 2;
    (std::erfc(q / std::numbers::sqrt2) / 2 > p ? low : high) = q;
  }
  return high;
}

}  // namespace

CmaCoordinates::CmaCoordinates(const Space& space) : space_(space) {
  for (size_t i = 0; i < space.size(); ++i) {
    const Parameter& p = space.parameters()[i];
    owner_.insert(owner_.end(), p.kind == Kind::categorical ? p.choices.size() : 1, i);
    Share middles{-box_margin, 1 + box_margin};
    if (p.kind == Kind::categorical) {
      middles = {0, 1};
    } else if (!is_continuum(i)) {
      const Share first = share_at(i, 0);
      const Share last = share_at(i, 1);
      middles = {(first.low + first.high) / 2, (last.low + last.high) / 2};
    }
    middles_.resize(owner_.size(), middles);
    has_margin_ = has_margin_ || p.count() > 1;
  }
}

bool CmaCoordinates::is_continuum(size_t parameter) const { return space_.parameters()[parameter].count() == 0; }

CmaCoordinates::Share CmaCoordinates::share_at(size_t parameter, double u) const {
  const Parameter& p = space_.parameters()[parameter];
  const double value = space_.from_unit(parameter, u);
  if (p.kind == Kind::integer) return {space_.to_unit(parameter, value - 0.5), space_.to_unit(parameter, value + 0.5)};
  if (p.kind == Kind::real && p.scale == Scale::logarithmic) {
    return {space_.to_unit(parameter, std::max(p.low, value - p.step / 2)), space_.to_unit(parameter, std::min(p.high, value + p.step / 2))};
  }
  const auto count = static_cast<double>(p.count());
  const double index = std::clamp(std::floor(u * count), 0.0, count - 1);
  return {index / count, (index + 1) / count};
}

std::vector<double> CmaCoordinates::values_of(const Eigen::VectorXd& z) const {
  std::vector<double> position(z.data(), z.data() + z.size());
  for (size_t i = 0; i < size(); ++i) {
    if (is_continuum(owner_[i])) position[i] = into_box(position[i]);
  }
  return space_.decode(position);
}

void CmaCoordinates::position_of(const std::vector<double>& values, Eigen::Ref<Eigen::VectorXd> z) const {
  const std::vector<double> position = space_.encode(values);
  for (size_t i = 0; i < size(); ++i) z[static_cast<Index>(i)] = is_continuum(owner_[i]) ? out_of_box(position[i]) : position[i];
}

Eigen::VectorXd CmaCoordinates::random_start(CounterRng& random) const {
  Eigen::VectorXd start(static_cast<Index>(size()));
  for (size_t i = 0; i < size(); ++i) {
    start[static_cast<Index>(i)] = space_.parameters()[owner_[i]].kind == Kind::categorical ? 0.5 : uniform(random, 0.1, 0.9);
  }
  return start;
}

void CmaCoordinates::keep_within(Eigen::VectorXd& mean) const {
  for (size_t i = 0; i < size(); ++i) mean[static_cast<Index>(i)] = std::clamp(mean[static_cast<Index>(i)], middles_[i].low, middles_[i].high);
}

void CmaCoordinates::least_deviations(const Eigen::VectorXd& mean, double alpha, Eigen::VectorXd& least) const {
  least.setZero(mean.size());
  const double quantile = upper_quantile(alpha);
  for (size_t i = 0; i < size(); ++i) {
    const size_t owner = owner_[i];
    const Parameter& p = space_.parameters()[owner];
    if (p.count() < 2) continue;
    const auto at = static_cast<Index>(i);
    if (p.kind != Kind::categorical) {
      const Share share = share_at(owner, mean[at]);
      least[at] = (share.high - share.low) / 2 / quantile;
      continue;
    }
    // The difference of two coordinates with this deviation has sqrt(2) times the deviation.
    const auto choices = static_cast<Index>(p.choices.size());
    Index leader = 0;
    const double largest = mean.segment(at, choices).maxCoeff(&leader);
    const double each = std::numbers::sqrt2 * upper_quantile(alpha / static_cast<double>(choices - 1));
    least.segment(at, choices) = (largest - mean.segment(at, choices).array()) / each;
    least[at + leader] = least.segment(at, choices).maxCoeff();
    i += p.choices.size() - 1;
  }
}

}  // namespace tw::search
