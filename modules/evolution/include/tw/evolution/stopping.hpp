// SPDX-License-Identifier: Apache-2.0
// Decides which trials go on, from what they and others have reported so far. Pure.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/individual.hpp>

namespace tw::search {

/// A value, smaller is better, that a trial has reached at a step: an epoch, or another measure of what was spent; steps ascend, unless the trial is
/// begun again.
struct Report {
  int64_t trial = 0;
  int64_t step = 0;
  double value = 0;
};

/// Receives all reports, and decides on some.
class StoppingRule {
 public:
  virtual ~StoppingRule() = default;
  /// A trial begins, perhaps again; the rule will be asked about it.
  virtual void begin(const Individual& individual) { static_cast<void>(individual); }
  /// A report of any trial, once, in the order in which they become known.
  virtual void observe(const Report& report) = 0;
  /// A trial has ended, here or elsewhere, whatever its state. Once for each, after its reports; of what has come from elsewhere there may be none.
  virtual void tell(const Individual& individual) { static_cast<void>(individual); }
  /// Whether the trial of this report, its last one that was observed, goes on. NaN never does.
  virtual bool goes_on(const Report& report) const = 0;
};

/// Stops a trial whose best value so far is worse than the median, over the others that have come to this step, of their best values up to it; of an
/// even number, the larger one in the middle.
/// Ref: Golovin et al. 2017, Google Vizier, section 3.2, which takes means of the others' values in place of their best: where values fall, a mean
/// since the first step lies far above what its trial has come to, and hardly anything is stopped.
struct MedianOptions {
  int64_t grace = 1;      ///< steps that every trial gets
  size_t min_trials = 3;  ///< others that must have come as far
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(MedianOptions& median, OptionVisitor& visitor);
/// @throws ContractError for wrong options
std::unique_ptr<StoppingRule> median_rule(const MedianOptions& options = {});

/// Asynchronous successive halving, stopping form: at rungs grace * eta^k a trial goes on while it is among the best 1/eta of those that came so far,
/// and never with an infinite value.
/// Ref: Li et al. 2020, arXiv 1810.05934; the stopping form as in Ray Tune.
struct HalvingOptions {
  int64_t grace = 1;            ///< steps to the first rung
  int64_t eta = 4;              ///< up to 1024
  int64_t max_steps = 1 << 30;  ///< steps, below 2^53; no rung lies at or after it
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(HalvingOptions& halving, OptionVisitor& visitor);
/// @throws ContractError for wrong options
std::unique_ptr<StoppingRule> halving_rule(const HalvingOptions& options = {});

/// Halving rules with later first rungs, side by side: bracket b of them begins at grace * eta^b, and trials are dealt out among brackets so that
/// each costs about the same: ceil(brackets eta^s / (s + 1)) in a row, with s = brackets - 1 - b.
/// Ref: Li et al. 2018, Hyperband, JMLR 18, algorithm 1; asynchronous brackets as in arXiv 1810.05934.
/// @throws ContractError for wrong options, or where the last bracket would begin after `max_steps`
std::unique_ptr<StoppingRule> hyperband_rule(int brackets, const HalvingOptions& options = {});
/// The bracket of a trial: a function of its number. @param trial at least 0. @param brackets, eta as in a valid rule
int bracket_of(int64_t trial, int brackets, int64_t eta);

}  // namespace tw::search
