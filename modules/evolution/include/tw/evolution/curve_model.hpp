// SPDX-License-Identifier: Apache-2.0
// Surrogates of training: they predict a trial's final loss from the losses of its steps. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/individual.hpp>
#include <tw/evolution/stopping.hpp>
#include <vector>

namespace tw::search {

/// What a trial has reported, and what became of it.
struct LearningCurve {
  int64_t trial = 0;
  std::vector<double> values = {};   ///< its configuration, in the order of the space
  std::vector<Report> reports = {};  ///< of finite values; steps ascend
  TrialState state = TrialState::running;
  double loss = 0;  ///< of a complete or a pruned one
};

/// Learns the shape of a search's curves and predicts where one ends. Write your own, or use parametric_curves(). See curve_rule().
class CurveModel {
 public:
  virtual ~CurveModel() = default;
  /// A trial has ended, complete or pruned, after one report at least. Once for each.
  virtual void learn(const LearningCurve& ended) = 0;
  /// The probability that a trial's value at `step`, which it has not reached, is below `loss`, from what was learnt and what it reported; 1 where
  /// no prediction is possible yet.
  /// @param curve of a running trial, with one report at least
  virtual double probability_below(double loss, const LearningCurve& curve, int64_t step) = 0;
};

/// How much parametric_curves() looks at, which bounds what an answer costs.
struct CurveModelOptions {
  size_t max_curves = 50;  ///< of trials that have ended: the longest, and of equally long ones the latest
  size_t max_points = 16;  ///< of a curve, evenly in the logarithm of its steps
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(CurveModelOptions& model, OptionVisitor& visitor);

/// A mixture of falling curves from a value s at the first step, t0, to a value c at the last, T, with independent normal noise:
///   y(t) = s h(t) + c (1 - h(t)),   h(t) = (g(t) - g(T)) / (g(t0) - g(T)),   g(t) = (t + b)^-d or exp(-t / tau).
/// For each of some 150 shapes (b, d) or tau, and 6 sizes of noise, c has a normal posterior by linear regression; each counts by its marginal
/// likelihood, and by how well it did for trials that have ended, which also locate s and c. Ref: Domhan, Springenberg & Hutter 2015, with
/// samples of weighted sums of eleven families; Viering & Loog 2021 on power laws; Bishop 2006, sections 3.3 and 3.4. Cost of an answer, with the
/// defaults: 0.2 ms, and after a trial has ended 10 ms.
std::unique_ptr<CurveModel> parametric_curves(const CurveModelOptions& options = {});

/// Stops a trial that is not likely to become the best one: the probability that its loss ends below that of the best complete trial is less than
/// `probability`. It ends at the step to which the longest complete one has come. What a trial reports must be of the kind that its loss is.
/// Ref: Domhan, Springenberg & Hutter 2015, also with 0.05.
struct CurveRuleOptions {
  int64_t grace = 1;          ///< steps that every trial gets
  size_t min_complete = 5;    ///< that must be complete before any is stopped
  double probability = 0.05;  ///< of becoming the best one, below which a trial is stopped
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(CurveRuleOptions& rule, OptionVisitor& visitor);
/// @throws ContractError for wrong options, or no model
std::unique_ptr<StoppingRule> curve_rule(std::unique_ptr<CurveModel> model, const CurveRuleOptions& options = {});

}  // namespace tw::search
