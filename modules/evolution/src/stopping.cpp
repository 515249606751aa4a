// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/stopping.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tw/base/contract.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rung.hpp"

namespace tw::search {
namespace {

class MedianRule : public StoppingRule {
 public:
  explicit MedianRule(const MedianOptions& options) : options_(options) {}

  void observe(const Report& report) override {
    if (std::isnan(report.value)) return;
    Bests& bests = bests_[report.trial];
    if (!bests.empty() && report.step <= bests.back().first) bests.clear();  // restarted
    bests.emplace_back(report.step, bests.empty() ? report.value : std::min(bests.back().second, report.value));
  }

  bool should_continue(const Report& report) const override {
    if (std::isnan(report.value)) return false;
    if (report.step <= options_.grace) return true;
    std::vector<double> others;
    for (const auto& [trial, bests] : bests_) {
      if (trial == report.trial || bests.back().first < report.step) continue;
      const auto at = std::ranges::upper_bound(bests, report.step, {}, [](const auto& each) { return each.first; });
      if (at != bests.begin()) others.push_back(std::prev(at)->second);
    }
    if (others.size() < options_.min_trials) return true;
    const auto middle = others.begin() + static_cast<int64_t>(others.size() / 2);
    std::nth_element(others.begin(), middle, others.end());
    return bests_.at(report.trial).back().second <= *middle;
  }

 private:
  using Bests = std::vector<std::pair<int64_t, double>>;  // by step: the best value up to it

  MedianOptions options_;
  std::unordered_map<int64_t, Bests> bests_;  // by trial
};

class HalvingRule : public StoppingRule {
 public:
  explicit HalvingRule(const HalvingOptions& options) {
    for (int64_t steps = options.grace; steps < options.max_steps; steps *= options.eta) {
      rungs_.emplace_back(steps, Rung(options.eta, 1));
      if (steps > options.max_steps / options.eta) break;
    }
  }

  void observe(const Report& report) override {
    if (std::isnan(report.value)) return;
    int& next = next_rung_[report.trial];
    while (next < static_cast<int>(rungs_.size()) && rungs_[static_cast<size_t>(next)].first <= report.step) {
      rungs_[static_cast<size_t>(next)].second.add({report.value, report.trial});
      judged_[report.trial] = {report.step, next};
      ++next;
    }
  }

  bool should_continue(const Report& report) const override {
    if (std::isnan(report.value)) return false;
    const auto judged = judged_.find(report.trial);
    if (judged == judged_.end() || judged->second.first != report.step) return true;  // between rungs
    const bool is_finite = report.value < std::numeric_limits<double>::infinity();    // the first value at a rung is its best, even if not finite
    return is_finite && rungs_[static_cast<size_t>(judged->second.second)].second.has_among_best(report.value);
  }

 private:
  std::vector<std::pair<int64_t, Rung>> rungs_;                  // by steps
  std::unordered_map<int64_t, int> next_rung_;                   // by trial
  std::unordered_map<int64_t, std::pair<int64_t, int>> judged_;  // by trial, the step and rung it reached last
};

class HyperbandRule : public StoppingRule {
 public:
  HyperbandRule(int brackets, HalvingOptions options) : eta_(options.eta) {
    for (int bracket = 0; bracket < brackets; ++bracket, options.grace *= options.eta) rules_.emplace_back(options);
  }
  void observe(const Report& report) override { rules_[bracket(report)].observe(report); }
  bool should_continue(const Report& report) const override { return rules_[bracket(report)].should_continue(report); }

 private:
  size_t bracket(const Report& report) const { return static_cast<size_t>(bracket_of(report.trial, static_cast<int>(rules_.size()), eta_)); }

  int64_t eta_;
  std::vector<HalvingRule> rules_;
};

}  // namespace

void visit(MedianOptions& median, OptionVisitor& visitor) {
  visitor.field("grace", median.grace, at_least(0), {.meaning = "steps that every trial may run", .unit = "steps"});
  visitor.field("min_trials", median.min_trials, at_least(1), {.meaning = "other trials that must have reached the same step"});
}

void visit(HalvingOptions& halving, OptionVisitor& visitor) {
  visitor.field("grace", halving.grace, at_least(1), {.meaning = "steps to the first rung", .unit = "steps"});
  visitor.field("eta", halving.eta, at_least(2, 1024),
                {.meaning = "reduction factor: 1/eta of the trials pass each rung, and each rung has eta times the steps of the one before"});
  visitor.field("max_steps", halving.max_steps, at_least(1, 9007199254740991),
                {.meaning = "steps of a trial; all rungs lie before this step", .unit = "steps"});
}

void MedianOptions::validate() const { expect_none(out_of_bounds(*this)); }

void HalvingOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(max_steps >= grace, "max_steps must be at least grace, ", grace, ", got ", max_steps);
}

std::unique_ptr<StoppingRule> median_rule(const MedianOptions& options) {
  options.validate();
  return std::make_unique<MedianRule>(options);
}

std::unique_ptr<StoppingRule> halving_rule(const HalvingOptions& options) {
  options.validate();
  return std::make_unique<HalvingRule>(options);
}

std::unique_ptr<StoppingRule> hyperband_rule(int brackets, const HalvingOptions& options) {
  options.validate();
  TW_EXPECTS(brackets >= 1, "there must be at least 1 bracket, got ", brackets);
  int64_t steps = options.grace;
  for (int bracket = 1; bracket < brackets; ++bracket, steps *= options.eta) {
    TW_EXPECTS(steps <= options.max_steps / options.eta, "with ", brackets, " brackets, only ", bracket, " begin within max_steps, ",
               options.max_steps, ": use fewer brackets or increase max_steps");
  }
  return std::make_unique<HyperbandRule>(brackets, options);
}

int bracket_of(int64_t trial, int brackets, int64_t eta) {
  std::vector<int64_t> shares;  // from the last bracket
  int64_t power = 1;            // eta^s
  for (int s = 0; s < brackets; ++s, power *= eta) shares.push_back((brackets * power + s) / (s + 1));
  int64_t place = trial % std::accumulate(shares.begin(), shares.end(), int64_t{0});  // NOLINT(clang-analyzer-core.DivideZero): shares are positive
  int bracket = 0;
  for (; place >= shares.back(); ++bracket) {
    place -= shares.back();
    shares.pop_back();
  }
  return bracket;
}

}  // namespace tw::search
