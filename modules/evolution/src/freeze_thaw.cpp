// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <tw/evolution/curve_model.hpp>
#include <vector>

#include "asymptotes.hpp"

namespace tw::search {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double refit_growth = 1.25;  // of the number of curves, from one fit of the parameters to the next

/// What curves have in common: at each step the median, over complete trials, of how far the value lies above the last one, so that a trial that
/// diverges says nothing; linear in the logarithm of the step between nodes.
class CommonCourse {
 public:
  /// @param curves at least one
  CommonCourse(const std::vector<const CurvePoints*>& curves, double last) : log_last_(std::log(std::max(last, 2.0))) {
    std::vector<double> above(curves.size());
    for (size_t node = 0; node < medians_.size(); ++node) {
      const double step = std::exp(log_last_ * static_cast<double>(node) / last_node);
      std::ranges::transform(curves, above.begin(), [step](const CurvePoints* curve) { return value_of(*curve, step) - curve->last(); });
      const auto middle = above.begin() + static_cast<int64_t>(above.size() / 2);
      std::ranges::nth_element(above, middle);
      medians_[node] = *middle;
    }
  }
  double operator()(double step) const {
    const double at = std::clamp(std::log(step) / log_last_, 0.0, 1.0) * last_node;
    const size_t node = std::min(static_cast<size_t>(at), medians_.size() - 2);
    return std::lerp(medians_[node], medians_[node + 1], at - static_cast<double>(node));
  }

 private:
  static constexpr double last_node = 31;

  /// The first and the last value beyond them.
  static double value_of(const CurvePoints& curve, double step) {
    const Index next = std::upper_bound(curve.steps.begin(), curve.steps.end(), step) - curve.steps.begin();
    if (next == 0) return curve.first();
    if (next == curve.size()) return curve.last();
    const double part = std::log(step / curve.steps[next - 1]) / std::log(curve.steps[next] / curve.steps[next - 1]);
    return std::lerp(curve.values[next - 1], curve.values[next], part);
  }

  double log_last_;
  std::array<double, 32> medians_;
};

/// All parameters, as logarithms.
struct Parameters {
  static constexpr size_t count = 7;
  std::array<double, count> logs{};

  static Parameters initial(double last, Index dimensions) {
    const double values[] = {1, last / 10, 0.3, 1e-3, 0.5, 0.5 * std::sqrt(static_cast<double>(dimensions)), 0.05};
    Parameters parameters;
    std::ranges::transform(values, parameters.logs.begin(), [](double each) { return std::log(each); });
    return parameters;
  }
  CurveKernel curve() const {
    return {.alpha = std::exp(logs[0]), .beta = std::exp(logs[1]), .amplitude = std::exp(logs[2]), .noise = std::exp(logs[3])};
  }
  AsymptoteKernel asymptote() const { return {.amplitude = std::exp(logs[4]), .length = std::exp(logs[5]), .own = std::exp(logs[6])}; }
};

class FreezeThaw : public CurveModel {
 public:
  FreezeThaw(Space space, const CurveModelOptions& options) : space_(std::move(space)), ended_(options) {}

  void learn(const LearningCurve& ended) override {
    ended_.add(ended);
    ++learnt_;
    last_ = 0;
  }

  double probability_below(double loss, const LearningCurve& curve, int64_t step) override {
    const auto last = static_cast<double>(std::max<int64_t>(step, 1));
    if (last_ != last) prepare(last);
    if (!units_) return 1;
    const CurvePoints points = ended_.points(curve, *units_);
    const CurveRegression regression(parameters_.curve(), points.steps, centred(points));
    const CurveRegression::Normal value = regression.value_at(last, asymptotes_->at(position_of(curve)));
    const double z = ((*units_)(loss)-mean_ - (*course_)(last)-value.mean) / std::sqrt(value.variance);
    return std::erfc(-z / std::numbers::sqrt2) / 2;
  }

 private:
  VectorXd position_of(const LearningCurve& curve) const {
    const std::vector<double> position = space_.encode(curve.values);
    return Eigen::Map<const VectorXd>(position.data(), static_cast<Index>(position.size()));
  }

  /// Values less what is expected of any curve.
  VectorXd centred(const CurvePoints& points) const {
    VectorXd values = points.values - mean_;
    for (Index i = 0; i < values.size(); ++i) values[i] -= (*course_)(points.steps[i]);
    return values;
  }

  /// For what is known by now: the common course, the parameters every now and then, and the asymptotes.
  void prepare(double last) {
    last_ = last;
    units_ = ended_.units();
    if (!units_) return;
    curves_.clear();
    curves_.reserve(ended_.all().size());
    positions_.resize(static_cast<Index>(space_.dimensions()), static_cast<Index>(ended_.all().size()));
    std::vector<const CurvePoints*> complete;
    for (const LearningCurve& each : ended_.all()) {
      positions_.col(static_cast<Index>(curves_.size())) = position_of(each);
      curves_.push_back(ended_.points(each, *units_));
      if (each.state == TrialState::complete) complete.push_back(&curves_.back());
    }
    course_.emplace(complete, last);
    mean_ = 0;
    for (const CurvePoints* each : complete) mean_ += each->last() / static_cast<double>(complete.size());
    if (static_cast<double>(learnt_) >= refit_growth * static_cast<double>(learnt_at_fit_)) fit(Parameters::initial(last, positions_.rows()));
    asymptotes_.emplace(asymptotes_with(parameters_));
  }

  Asymptotes asymptotes_with(const Parameters& parameters) const {
    std::vector<AsymptoteEvidence> evidence;
    for (const CurvePoints& each : curves_) evidence.push_back(CurveRegression(parameters.curve(), each.steps, centred(each)).evidence());
    return {positions_, evidence, parameters.asymptote()};
  }

  /// The most likely parameters, with log-normal priors of deviation 1.5 around `initial`: each in turn is tried larger and smaller, in ever smaller
  /// steps.
  void fit(const Parameters& initial) {
    const auto score = [&](const Parameters& parameters) {
      double prior = 0;
      for (size_t i = 0; i < Parameters::count; ++i) prior += std::pow((parameters.logs[i] - initial.logs[i]) / 1.5, 2);
      return asymptotes_with(parameters).log_likelihood() - prior / 2;
    };
    parameters_ = initial;
    double best = score(parameters_);
    for (const double step : {1.5, 1.5, 0.7, 0.3}) {
      for (size_t i = 0; i < Parameters::count; ++i) {
        for (const double move : {step, -step}) {
          Parameters tried = parameters_;
          tried.logs[i] += move;
          const double found = score(tried);
          if (!(found > best)) continue;
          best = found;
          parameters_ = tried;
          break;
        }
      }
    }
    learnt_at_fit_ = learnt_;
  }

  const Space space_;
  EndedCurves ended_;
  size_t learnt_ = 0;
  size_t learnt_at_fit_ = 0;
  Parameters parameters_;
  double last_ = 0;  // step for which what follows holds; 0: none
  std::optional<LossUnits> units_;
  std::vector<CurvePoints> curves_;  // of those that have ended
  MatrixXd positions_;               // the same, [D, n]
  double mean_ = 0;                  // of the last values of complete ones
  std::optional<CommonCourse> course_;
  std::optional<Asymptotes> asymptotes_;
};

}  // namespace

std::unique_ptr<CurveModel> freeze_thaw(const Space& space, const CurveModelOptions& options) {
  options.validate();
  return std::make_unique<FreezeThaw>(space, options);
}

}  // namespace tw::search
