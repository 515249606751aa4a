// SPDX-License-Identifier: Apache-2.0
// Decides which trials continue, from the reports so far. Pure computation.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/individual.hpp>

namespace tw::search {

/// A trial's value at a step; smaller is better. A step is an epoch or another measure of effort. A trial's steps ascend unless it is restarted.
struct Report {
  int64_t trial = 0;
  int64_t step = 0;
  double value = 0;
};

/// Receives all reports, and decides whether trials continue.
class StoppingRule {
 public:
  virtual ~StoppingRule() = default;
  /// A trial begins, possibly again; the rule will be asked about it.
  virtual void begin(const Individual& individual) { static_cast<void>(individual); }
  /// A report of any trial. Called once for each, in the order of arrival.
  virtual void observe(const Report& report) = 0;
  /// A trial has ended in any state, here or elsewhere. Called once for each trial, after the trial's reports. Trials from elsewhere may have no
  /// reports.
  virtual void tell(const Individual& individual) { static_cast<void>(individual); }
  /// Whether the trial continues after this report, which must be the last one observed of this trial. NaN always stops the trial.
  virtual bool should_continue(const Report& report) const = 0;
};

/// Options of median_rule(), which stops a trial whose best value so far is worse than the median of the other trials' best values up to the same
/// step. Only trials that have reached this step count. If their number is even, the larger of the two middle values is used.
/// Ref: Golovin et al. 2017, Google Vizier, section 3.2, which uses means of the others' values instead of their best. With falling values, such a
/// mean is far above the current value, and hardly any trial is stopped.
struct MedianOptions {
  int64_t grace = 1;      ///< steps that every trial may run
  size_t min_trials = 3;  ///< number of other trials that must have reached the step; otherwise the trial continues
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(MedianOptions& median, OptionVisitor& visitor);
/// @throws ContractError for wrong options
std::unique_ptr<StoppingRule> median_rule(const MedianOptions& options = {});

/// Options of halving_rule(), the stopping form of asynchronous successive halving. Its rungs are the steps grace * eta^k. At each rung, a trial
/// continues if it is among the best 1/eta of the trials that have reached the rung so far. A trial with an infinite value at a rung always stops.
/// Ref: Li et al. 2020, arXiv 1810.05934; the stopping form as in Ray Tune.
struct HalvingOptions {
  int64_t grace = 1;            ///< steps to the first rung
  int64_t eta = 4;              ///< reduction factor, up to 1024
  int64_t max_steps = 1 << 30;  ///< upper bound of the rungs, exclusive; below 2^53
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(HalvingOptions& halving, OptionVisitor& visitor);
/// @throws ContractError for wrong options
std::unique_ptr<StoppingRule> halving_rule(const HalvingOptions& options = {});

/// Several halving rules (brackets) at once: the first rung of bracket b is at grace * eta^b. Trials are assigned so that each bracket costs about
/// the same: bracket b gets ceil(brackets * eta^s / (s + 1)) consecutive trials, with s = brackets - 1 - b.
/// Ref: Li et al. 2018, Hyperband, JMLR 18, algorithm 1; asynchronous brackets as in arXiv 1810.05934.
/// @throws ContractError for wrong options, or if the last bracket would begin after `max_steps`
std::unique_ptr<StoppingRule> hyperband_rule(int brackets, const HalvingOptions& options = {});
/// The bracket of a trial; depends only on the trial's number. @param trial at least 0. @param brackets, eta as passed to hyperband_rule()
int bracket_of(int64_t trial, int brackets, int64_t eta);

}  // namespace tw::search
