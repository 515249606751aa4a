// SPDX-License-Identifier: Apache-2.0
#include "ended_curves.hpp"

#include <algorithm>
#include <cmath>

namespace tw::search {
namespace {

constexpr double max_above = 10;  // units above the point where curves begin

/// The median; for an even number, the larger of the two middle values.
double upper_median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double step_of(const Report& report) { return static_cast<double>(std::max<int64_t>(report.step, 1)); }

}  // namespace

CurvePoints points_of(const LearningCurve& curve, const LossUnits& units, size_t max_points) {
  const std::vector<Report>& reports = curve.reports;
  std::vector<size_t> chosen;
  const double first = step_of(reports.front());
  const double ratio = step_of(reports.back()) / first;
  size_t points = 0;  // number of requested points at or before the last chosen step
  for (size_t i = 0; i < reports.size(); ++i) {
    const double share = ratio > 1 ? std::log(step_of(reports[i]) / first) / std::log(ratio) : 0;
    const auto at = static_cast<size_t>(share * static_cast<double>(max_points - 1)) + 1;
    if (at <= points && reports.size() > max_points && i + 1 < reports.size()) continue;
    points = at;
    chosen.push_back(i);
  }
  CurvePoints thinned{Eigen::ArrayXd(chosen.size()), Eigen::ArrayXd(chosen.size())};
  for (size_t k = 0; k < chosen.size(); ++k) {
    thinned.steps[static_cast<Eigen::Index>(k)] = step_of(reports[chosen[k]]);
    thinned.values[static_cast<Eigen::Index>(k)] = units(reports[chosen[k]].value);
  }
  return thinned;
}

void EndedCurves::add(const LearningCurve& curve) {
  curves_.push_back(curve);
  if (curves_.size() <= options_.max_curves) return;
  curves_.erase(std::ranges::min_element(curves_, {}, [](const LearningCurve& each) { return each.reports.back().step; }));
}

std::optional<LossUnits> EndedCurves::units() const {
  std::vector<double> losses;
  std::vector<double> firsts;
  for (const LearningCurve& each : curves_) {
    firsts.push_back(each.reports.front().value);
    if (each.state == TrialState::complete) losses.push_back(each.loss);
  }
  if (losses.size() < 2) return std::nullopt;
  const double best = *std::ranges::min_element(losses);
  double unit = upper_median(losses) - best;
  if (unit == 0) unit = *std::ranges::max_element(losses) - best;
  if (unit == 0 || !std::isfinite(unit)) return std::nullopt;
  return LossUnits(best, unit, std::max(upper_median(firsts), best + unit) + max_above * unit);
}

}  // namespace tw::search
