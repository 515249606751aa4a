// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <optional>
#include <tw/evolution/curve_model.hpp>
#include <vector>

namespace tw::search {

/// Scales losses for curve models: 0 is the best loss of a complete trial, 1 the median loss. Losses above the bound, higher than any curve begins,
/// have diverged and count as the bound.
class LossUnits {
 public:
  LossUnits(double best, double unit, double bound) : best_(best), unit_(unit), bound_(bound) {}
  double operator()(double loss) const { return (std::min(loss, bound_) - best_) / unit_; }

 private:
  double best_;
  double unit_;
  double bound_;  // largest loss before scaling
};

/// A curve in the form that models use: steps of at least 1, and scaled values.
struct CurvePoints {
  Eigen::ArrayXd steps;
  Eigen::ArrayXd values;

  Eigen::Index size() const noexcept { return steps.size(); }
  double first() const { return values[0]; }
  double last() const { return values[values.size() - 1]; }
};

/// The first and the last report, and reports in between that make up to `max_points`, evenly spaced in the logarithm of the step.
/// @param max_points at least 2
CurvePoints points_of(const LearningCurve& curve, const LossUnits& units, size_t max_points);

/// The curves of finished trials, up to the number that a model uses.
class EndedCurves {
 public:
  explicit EndedCurves(const CurveModelOptions& options) : options_(options) {}

  void add(const LearningCurve& curve);
  const std::vector<LearningCurve>& all() const noexcept { return curves_; }
  /// Empty if fewer than two trials are complete, or all losses are equal.
  std::optional<LossUnits> units() const;
  CurvePoints points(const LearningCurve& curve, const LossUnits& units) const { return points_of(curve, units, options_.max_points); }

 private:
  CurveModelOptions options_;
  std::vector<LearningCurve> curves_;  // in the order in which they ended
};

}  // namespace tw::search
