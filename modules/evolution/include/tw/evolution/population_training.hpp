// SPDX-License-Identifier: Apache-2.0
// Population-based training: which member of a population copies which other one, and what it tries then. Pure.
// Ref: Jaderberg et al. 2017, arXiv 1711.09846.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tw/base/option.hpp>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <tw/evolution/stopping.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tw::search {

struct PopulationTrainingOptions {
  int64_t interval = 1;                  ///< steps from one time that a member is compared with the others to the next
  int64_t max_steps = 1 << 30;           ///< steps of a member: from there on it is not compared, and goes on to its end
  double quantile = 0.25;                ///< this many at the bottom, one at least, copy this many at the top
  double resample = 0.25;                ///< probability that a value of a copy is drawn again
  double up = 1.2;                       ///< otherwise a number is multiplied by this
  double down = 0.8;                     ///< or this, whichever chance has it
  std::vector<std::string> frozen = {};  ///< parameters that a copy has as its original, such as a width, which shapes the tensors

  /// @throws ContractError naming the wrong field
  void validate(const Space& space) const;
};
void visit(PopulationTrainingOptions& training, OptionVisitor& visitor);

/// The values that the members of a population have reached, and which member is to copy which.
class PopulationTraining {
 public:
  explicit PopulationTraining(const PopulationTrainingOptions& options) : options_(options) {}

  /// A report of any member, once. What is not after the member's last step is passed over.
  void observe(const Report& report);
  /// A member has ended: it is copied no more, and is still compared with.
  void end(int64_t trial) { ended_.insert(trial); }
  /// Whether a multiple of the interval lies between this report, which was observed, and the member's one before. Not at the end.
  bool is_due(const Report& report) const;
  bool is_at_end(const Report& report) const noexcept { return report.step >= options_.max_steps; }
  /// The member that the reporting one is to copy, if any. Members are ranked by what they last reported at this step or before, but not before the
  /// reporting one's report of an interval ago: members that lag more are left out. Chance decides between equal ones, so that a plateau, where all
  /// are, is still searched. Of m members the worst n = max(1, floor(quantile m)), and all whose value is not finite, copy one of the best n of those
  /// before them that have not ended, each as likely; no member copies what is not finite.
  std::optional<int64_t> original_for(const Report& report, CounterRng& random) const;

 private:
  PopulationTrainingOptions options_;
  std::map<int64_t, std::vector<std::pair<int64_t, double>>> curves_;  // by trial: step and value
  std::unordered_set<int64_t> ended_;
};

/// The values that a copy of `values` tries: each is drawn again with probability `resample`; otherwise a number is multiplied by `up` or `down`, an
/// integer moves by 1 at least, an ordinal one goes to a neighbour, and a categorical one stays. Within limits, and feasible: after ten attempts that
/// are not, the values themselves.
std::vector<double> explored(const Space& space, const std::vector<double>& values, const PopulationTrainingOptions& options, CounterRng& random);

}  // namespace tw::search
