// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/evolution/curve_model.hpp>
#include <unordered_map>

namespace tw::search {
namespace {

class CurveRule : public StoppingRule {
 public:
  CurveRule(std::unique_ptr<CurveModel> model, const CurveRuleOptions& options) : model_(std::move(model)), options_(options) {}

  void begin(const Individual& individual) override { curves_[individual.trial] = {.trial = individual.trial, .values = individual.values}; }

  void observe(const Report& report) override {
    if (!std::isfinite(report.value)) return;
    LearningCurve& curve = curves_[report.trial];
    if (!curve.reports.empty() && report.step <= curve.reports.back().step) curve.reports.clear();  // restarted
    curve.reports.push_back(report);
  }

  void tell(const Individual& individual) override {
    const auto node = curves_.extract(individual.trial);
    if (node.empty() || node.mapped().reports.empty() || !individual.has_comparable_loss()) return;
    LearningCurve& curve = node.mapped();
    curve.trial = individual.trial;
    curve.values = individual.values;
    curve.state = individual.state;
    curve.loss = individual.loss;
    if (curve.state == TrialState::complete) {
      ++complete_;
      best_ = std::min(best_, curve.loss);
      last_step_ = std::max(last_step_, curve.reports.back().step);
    }
    model_->learn(curve);
  }

  bool should_continue(const Report& report) const override {
    if (std::isnan(report.value)) return false;
    if (report.step <= options_.grace || complete_ < options_.min_complete || report.step >= last_step_) return true;
    if (!std::isfinite(report.value)) return report.value < 0;
    return report.value < best_ || model_->probability_below(best_, curves_.at(report.trial), last_step_) >= options_.probability;
  }

 private:
  std::unique_ptr<CurveModel> model_;
  CurveRuleOptions options_;
  std::unordered_map<int64_t, LearningCurve> curves_;  // curves of unfinished trials, by trial
  size_t complete_ = 0;
  double best_ = std::numeric_limits<double>::infinity();  // best loss of complete trials
  int64_t last_step_ = 0;                                  // last step of complete trials
};

}  // namespace

void visit(CurveModelOptions& model, OptionVisitor& visitor) {
  visitor.field("max_curves", model.max_curves, at_least(2, 1000),
                {.meaning = "maximum number of curves of ended trials; the longest ones are kept"});
  visitor.field("max_points", model.max_points, at_least(2, 1000), {.meaning = "maximum number of points per curve"});
}

void visit(CurveRuleOptions& rule, OptionVisitor& visitor) {
  visitor.field("grace", rule.grace, at_least(0), {.meaning = "steps that every trial may run", .unit = "steps"});
  visitor.field("min_complete", rule.min_complete, at_least(1), {.meaning = "trials that must be complete before any is stopped"});
  visitor.field("probability", rule.probability, {.least = 0, .most = 1},
                {.meaning = "probability of becoming the best, below which a trial is stopped"});
}

void CurveModelOptions::validate() const { expect_none(out_of_bounds(*this)); }
void CurveRuleOptions::validate() const { expect_none(out_of_bounds(*this)); }

std::unique_ptr<StoppingRule> curve_rule(std::unique_ptr<CurveModel> model, const CurveRuleOptions& options) {
  TW_EXPECTS(model != nullptr, "curve_rule() needs a model, got null");
  options.validate();
  return std::make_unique<CurveRule>(std::move(model), options);
}

}  // namespace tw::search
