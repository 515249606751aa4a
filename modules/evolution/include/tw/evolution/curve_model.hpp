// SPDX-License-Identifier: Apache-2.0
// Learning-curve models: they predict a trial's final loss from the losses that it has reported and from ended trials. Pure computation.
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
  double loss = 0;  ///< the final loss, once complete or pruned; may be infinite if pruned
};

/// Learns the shape of a search's curves and predicts where a curve ends, for curve_rule(). Write your own, or use parametric_curves().
class CurveModel {
 public:
  virtual ~CurveModel() = default;
  /// Learns from a trial that has ended, complete or pruned, with at least one report. Called once for each such trial.
  virtual void learn(const LearningCurve& ended) = 0;
  /// The predicted probability that a trial's value at `step` is below `loss`. Return 1 while no prediction is possible: the trial then continues.
  /// @param curve a running trial with at least one report, all before `step`
  virtual double probability_below(double loss, const LearningCurve& curve, int64_t step) = 0;
};

/// Limits on the data that parametric_curves() uses. They bound the cost of a prediction.
struct CurveModelOptions {
  size_t max_curves = 50;  ///< maximum number of curves of ended trials; drops the shortest first, and of equally short ones the oldest
  size_t max_points = 16;  ///< maximum number of points per curve, evenly spaced in the logarithm of the step
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(CurveModelOptions& model, OptionVisitor& visitor);

/// A mixture of monotonic curves with independent normal noise. A curve leads from a value s at the trial's first report, at step t0, to a value c at
/// the step T for which a prediction is asked:
///   y(t) = s * h(t) + c * (1 - h(t)),   h(t) = (g(t) - g(T)) / (g(t0) - g(T)),   g(t) = (t + b)^-d or exp(-t / tau).
/// h falls from 1 to 0. The mixture has 152 shapes, each with its own b and d, or its own tau, and combines each shape with 6 sizes of noise. For
/// each combination, Bayesian linear regression yields a normal posterior of c. A combination is weighted by its marginal likelihood and by how well
/// it fits ended trials. The prior of s comes from ended trials, that of c from complete ones. Values far above those with which curves begin are
/// capped. There is no prediction before two trials with different losses are complete.
///
/// Ref: Domhan, Springenberg & Hutter 2015, for weighted sums of eleven families; Viering & Loog 2021 on power laws; Bishop 2006, sections 3.3
/// and 3.4. Cost with the defaults: about 0.2 ms for a prediction, and 10 ms for the first one after a trial has ended or for another T.
std::unique_ptr<CurveModel> parametric_curves(const CurveModelOptions& options = {});

/// Options of curve_rule(), which stops a trial that is unlikely to become the best. Curves are extrapolated to the last step of the longest complete
/// trial. A trial stops if the predicted probability that its value there is below the best loss of a complete trial is less than `probability`. It
/// continues without a prediction if its latest value is already below that loss, or if it has reached that step. Otherwise a value of +infinity
/// stops it; NaN always stops it. Reports must be values of the same quantity as the loss. Ref: Domhan, Springenberg & Hutter 2015, with the same
/// threshold of 0.05.
struct CurveRuleOptions {
  int64_t grace = 1;          ///< steps that every trial may run
  size_t min_complete = 5;    ///< complete trials with reports that are required before any trial is stopped
  double probability = 0.05;  ///< minimum predicted probability of becoming the best with which a trial continues
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(CurveRuleOptions& rule, OptionVisitor& visitor);
/// Returns the rule that CurveRuleOptions describes. @throws ContractError for wrong options or a null model
std::unique_ptr<StoppingRule> curve_rule(std::unique_ptr<CurveModel> model, const CurveRuleOptions& options = {});

}  // namespace tw::search
