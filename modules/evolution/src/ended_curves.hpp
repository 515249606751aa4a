// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <optional>
#include <tw/evolution/curve_model.hpp>
#include <vector>

namespace tw::search {

/// Losses as models of curves see them: 0 is the best loss of a complete trial, and 1 the median one. What lies beyond a bound, where no curve
/// begins, has diverged, and counts as if it lay there.
class LossUnits {
 public:
  LossUnits(double best, double unit, double bound) : best_(best), unit_(unit), bound_(bound) {}
  double operator()(double loss) const { return (std::min(loss, bound_) - best_) / unit_; }

 private:
  double best_;
  double unit_;
  double bound_;  // a loss
};

/// A curve as models see it: steps of 1 at least, and values in those units.
struct CurvePoints {
  Eigen::ArrayXd steps;
  Eigen::ArrayXd values;

  Eigen::Index size() const noexcept { return steps.size(); }
  double first() const { return values[0]; }
  double last() const { return values[values.size() - 1]; }
};

/// The first and the last report, and of those in between as many as make `max_points`, evenly in the logarithm of the step.
/// @param max_points 2 at least
CurvePoints points_of(const LearningCurve& curve, const LossUnits& units, size_t max_points);

/// The curves of trials that have ended, as many of them as a model looks at.
class EndedCurves {
 public:
  explicit EndedCurves(const CurveModelOptions& options) : options_(options) {}

  void add(const LearningCurve& curve);
  const std::vector<LearningCurve>& all() const noexcept { return curves_; }
  /// None: fewer than two are complete, or they have equal losses.
  std::optional<LossUnits> units() const;
  CurvePoints points(const LearningCurve& curve, const LossUnits& units) const { return points_of(curve, units, options_.max_points); }

 private:
  CurveModelOptions options_;
  std::vector<LearningCurve> curves_;  // in the order in which they ended
};

}  // namespace tw::search
