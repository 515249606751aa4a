// SPDX-License-Identifier: Apache-2.0
// Learning-curve models: they predict a trial's final loss from the losses that it has reported. Pure computation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/individual.hpp>
#include <tw/evolution/stopping.hpp>
#include <vector>

namespace tw::search {

/// The reports of a trial, and its outcome.
struct LearningCurve {
  int64_t trial = 0;
  std::vector<double> values = {};   ///< the trial's configuration, in the order of the space
  std::vector<Report> reports = {};  ///< finite values at ascending steps
  TrialState state = TrialState::running;
  double loss = 0;  ///< the final loss, once complete or pruned
};

/// Learns the shape of a search's curves and predicts where a curve ends. Write your own, or use parametric_curves(). See curve_rule().
class CurveModel {
 public:
  virtual ~CurveModel() = default;
  /// Learns from a trial that has ended, complete or pruned, with at least one report. Called once for each such trial.
  virtual void learn(const LearningCurve& ended) = 0;
  /// The predicted probability that a trial's value at the later step `step` is below `loss`. Returns 1 while no prediction is possible.
  /// @param curve a running trial with at least one report
  virtual double probability_below(double loss, const LearningCurve& curve, int64_t step) = 0;
};

/// Limits on the data that parametric_curves() uses. They bound the cost of a prediction.
struct CurveModelOptions {
  size_t max_curves = 50;  ///< maximum number of curves of ended trials: the longest, and the latest among equally long ones
  size_t max_points = 16;  ///< maximum number of points per curve, evenly spaced in the logarithm of the step
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(CurveModelOptions& model, OptionVisitor& visitor);

/// A mixture of decreasing curves from a value s at the first step t0 to a value c at the last step T, with independent normal noise:
///   y(t) = s * h(t) + c * (1 - h(t)),   h(t) = (g(t) - g(T)) / (g(t0) - g(T)),   g(t) = (t + b)^-d or exp(-t / tau).
/// There are some 150 shapes, each with a (b, d) or a tau, and 6 sizes of noise. For each combination of these, linear regression yields a normal
/// posterior of c. A combination is weighted by its marginal likelihood and by how well it fits ended trials. Ended trials also provide the priors of
/// s and c. Ref: Domhan, Springenberg & Hutter 2015, for weighted sums of eleven families; Viering & Loog 2021 on power laws; Bishop 2006, sections
/// 3.3 and 3.4. Cost with the defaults: 0.2 ms for a prediction, 10 ms for the first one after a trial has ended.
std::unique_ptr<CurveModel> parametric_curves(const CurveModelOptions& options = {});

/// Options of curve_rule(), which stops a trial that is unlikely to become the best: the predicted probability that it ends below the best complete
/// trial's loss is less than `probability`. Curves are extrapolated to the last step of the longest complete trial. Reports must be in the same
/// measure as the loss.
/// Ref: Domhan, Springenberg & Hutter 2015, with the same threshold of 0.05.
struct CurveRuleOptions {
  int64_t grace = 1;          ///< steps that every trial may run
  size_t min_complete = 5;    ///< complete trials required before any is stopped
  double probability = 0.05;  ///< threshold on the probability of becoming the best
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(CurveRuleOptions& rule, OptionVisitor& visitor);
/// @throws ContractError for wrong options or a null model
std::unique_ptr<StoppingRule> curve_rule(std::unique_ptr<CurveModel> model, const CurveRuleOptions& options = {});

}  // namespace tw::search
