// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <utility>

#include "trial_scheduler.hpp"

namespace tw::search {
namespace {

/// Stops trials by a StoppingRule.
class EarlyStopping final : public TrialScheduler {
 public:
  explicit EarlyStopping(std::unique_ptr<StoppingRule> rule) : rule_(std::move(rule)) {}

  void begin(const Individual& individual) override { rule_->begin(individual); }
  Verdict decide(const Report& report) override {
    rule_->observe(report);
    return rule_->should_continue(report) ? Verdict::go_on : Verdict::stop;
  }
  void observe(const Report& report, int /*worker*/) override { rule_->observe(report); }
  void end(const Individual& individual) override { rule_->tell(individual); }

 private:
  std::unique_ptr<StoppingRule> rule_;
};

}  // namespace

std::unique_ptr<TrialScheduler> early_stopping(const StoppingFactory& factory) {
  auto rule = factory ? factory() : nullptr;
  TW_EXPECTS(rule != nullptr, "the function in SearchOptions::scheduler returned no stopping rule");
  return std::make_unique<EarlyStopping>(std::move(rule));
}

}  // namespace tw::search
