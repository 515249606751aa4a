// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <tw/evolution/curve_model.hpp>
#include <vector>

#include "ended_curves.hpp"

namespace tw::search {
namespace {

/// How a curve falls; lengths are shares of the last step. Either a power law (t + offset)^-power or, if `scale` is set, exp(-t / scale).
struct Shape {
  double offset = 0;
  double power = 0;
  double scale = 0;

  double log_height(double t, double last) const { return scale > 0 ? -t / (scale * last) : -power * std::log(t + offset * last); }
};

constexpr double ratio_of_powers = 1.09;  // between neighbouring powers: with a coarser grid, extrapolations are off by more than the noise
constexpr int power_count = 35;           // from 1/4 to 4.7
constexpr int scale_count = 12;           // from 1/64 to 0.7

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  for (const double offset : {0.0, 1.0 / 64, 1.0 / 16, 1.0 / 4}) {
    for (int i = 0; i < power_count; ++i) shapes.push_back({.offset = offset, .power = std::pow(ratio_of_powers, i) / 4});
  }
  for (int i = 0; i < scale_count; ++i) shapes.push_back({.scale = std::exp2(i / 2.0) / 64});
  return shapes;
}

constexpr std::array<double, 6> noises{0.003, 0.01, 0.03, 0.1, 0.3, 1};  // standard deviations, in units of losses
constexpr double min_variance = 0.25;                                    // least prior variance of the ends

/// Prior of the values at both ends of a curve: independent and normal.
struct Ends {
  double first_mean = 0, first_variance = 1;
  double last_mean = 0, last_variance = 1;
};

/// The likelihood of a curve for one shape and noise level, and the predicted value at the last step.
struct ShapeFit {
  double log_likelihood = 0;
  double mean = 0;
  double variance = 0;  // including noise
};

/// All fits of a curve, by shape and then by noise.
std::vector<ShapeFit> fits_of(const CurvePoints& points, const std::vector<Shape>& shapes, const Ends& ends, double last) {
  std::vector<ShapeFit> fits;
  fits.reserve(shapes.size() * noises.size());
  for (const Shape& shape : shapes) {
    const double at_first = shape.log_height(points.steps[0], last);
    const double rest = std::exp(shape.log_height(last, last) - at_first);
    // Sums over the points; a and b are the coefficients of the first and the last value, r the residual from the prior mean.
    double aa = 0, ab = 0, bb = 0, ar = 0, br = 0, rr = 0;
    for (Eigen::Index i = 0; i < points.size(); ++i) {
      const double a = rest < 1 ? (std::exp(shape.log_height(points.steps[i], last) - at_first) - rest) / (1 - rest) : 0;
      const double b = 1 - a;
      const double r = points.values[i] - a * ends.first_mean - b * ends.last_mean;
      aa += a * a, ab += a * b, bb += b * b, ar += a * r, br += b * r, rr += r * r;
    }
    for (const double noise : noises) {
      const double weight = 1 / (noise * noise);
      const double p = 1 / ends.first_variance + aa * weight;
      const double q = ab * weight;
      const double u = 1 / ends.last_variance + bb * weight;
      const double determinant = p * u - q * q;
      const double first = (u * ar - q * br) * weight / determinant;
      const double second = (p * br - q * ar) * weight / determinant;
      const double explained = (first * ar + second * br) * weight;
      fits.push_back({.log_likelihood = -static_cast<double>(points.size()) * std::log(noise) -
                                        std::log(determinant * ends.first_variance * ends.last_variance) / 2 - (rr * weight - explained) / 2,
                      .mean = ends.last_mean + second,
                      .variance = p / determinant + noise * noise});
    }
  }
  return fits;
}

/// The posterior weights of the fits; they add up to 1. @param weights prior weights
std::vector<double> posterior_weights(const std::vector<ShapeFit>& fits, const std::vector<double>& weights) {
  const double best = std::ranges::max_element(fits, {}, &ShapeFit::log_likelihood)->log_likelihood;
  std::vector<double> posterior;
  double sum = 0;
  for (size_t i = 0; i < fits.size(); ++i) sum += posterior.emplace_back(weights[i] * std::exp(fits[i].log_likelihood - best));
  for (double& each : posterior) each /= sum;
  return posterior;
}

class ParametricCurves : public CurveModel {
 public:
  explicit ParametricCurves(const CurveModelOptions& options) : ended_(options) {}

  void learn(const LearningCurve& ended) override {
    ended_.add(ended);
    last_ = 0;
  }

  double probability_below(double loss, const LearningCurve& curve, int64_t step) override {
    const auto last = static_cast<double>(std::max<int64_t>(step, 1));
    if (last_ != last) prepare(last);
    if (!units_) return 1;
    const std::vector<ShapeFit> fits = fits_of(ended_.points(curve, *units_), shapes_, ends_, last);
    const std::vector<double> weights = posterior_weights(fits, weights_);
    double probability = 0;
    for (size_t i = 0; i < fits.size(); ++i) {
      const double z = ((*units_)(loss)-fits[i].mean) / std::sqrt(fits[i].variance);
      probability += weights[i] * std::erfc(-z / std::numbers::sqrt2) / 2;
    }
    return probability;
  }

 private:
  /// Computes the prior of the ends, and then of shapes and noise levels from finished curves. One pseudo-count is spread evenly over all of them.
  void prepare(double last) {
    last_ = last;
    units_ = ended_.units();
    if (!units_) return;
    std::vector<CurvePoints> curves;
    std::vector<double> firsts;
    std::vector<double> lasts;
    for (const LearningCurve& each : ended_.all()) {
      curves.push_back(ended_.points(each, *units_));
      firsts.push_back(curves.back().first());
      if (each.state == TrialState::complete) lasts.push_back(curves.back().last());
    }
    set_moments(firsts, ends_.first_mean, ends_.first_variance);
    set_moments(lasts, ends_.last_mean, ends_.last_variance);
    const size_t count = shapes_.size() * noises.size();
    const std::vector<double> equal(count, 1 / static_cast<double>(count));
    weights_ = equal;
    for (const CurvePoints& each : curves) {
      const std::vector<double> own = posterior_weights(fits_of(each, shapes_, ends_, last), equal);
      for (size_t i = 0; i < count; ++i) weights_[i] += own[i];
    }
  }

  static void set_moments(const std::vector<double>& values, double& mean, double& variance) {
    const Eigen::Map<const Eigen::ArrayXd> all(values.data(), static_cast<Eigen::Index>(values.size()));
    mean = all.mean();
    variance = min_variance + (all - mean).square().mean();
  }

  const std::vector<Shape> shapes_ = all_shapes();
  EndedCurves ended_;
  double last_ = 0;  // step for which the following members are valid; 0: none
  std::optional<LossUnits> units_;
  Ends ends_;
  std::vector<double> weights_;
};

}  // namespace

std::unique_ptr<CurveModel> parametric_curves(const CurveModelOptions& options) {
  options.validate();
  return std::make_unique<ParametricCurves>(options);
}

}  // namespace tw::search
