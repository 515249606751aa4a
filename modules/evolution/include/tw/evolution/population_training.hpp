// SPDX-License-Identifier: Apache-2.0
// Population-based training: decides which member (trial) of a population copies which other, and which values the copy tries. Pure computation.
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
  int64_t interval = 1;                  ///< steps between two comparisons of a member with the others
  int64_t max_steps = 1 << 30;           ///< steps after which a member runs to its end without further comparisons
  double quantile = 0.25;                ///< share of members at the bottom (at least one) that copy members of an equal share at the top
  double resample = 0.25;                ///< probability that a value of a copy is redrawn
  double up = 1.2;                       ///< factor for numbers that are not redrawn
  double down = 0.8;                     ///< the alternative factor, equally likely
  std::vector<std::string> frozen = {};  ///< parameters that a copy keeps from its original, such as a width, which determines tensor shapes

  /// @throws ContractError naming the wrong field
  void validate(const Space& space) const;
};
void visit(PopulationTrainingOptions& training, OptionVisitor& visitor);

/// Tracks the values that the members of a population have reported, and decides which member copies which.
class PopulationTraining {
 public:
  explicit PopulationTraining(const PopulationTrainingOptions& options) : options_(options) {}

  /// Records a report of any member; call it once per report. Ignores reports that are not after the member's last step.
  void observe(const Report& report);
  /// Marks a member as ended: it is no longer copied, but others are still compared with it.
  void end(int64_t trial) { ended_.insert(trial); }
  /// Whether a multiple of the interval lies after the member's previous report and at or before this one, which must have been observed. False if
  /// is_at_end().
  bool is_due(const Report& report) const;
  bool is_at_end(const Report& report) const noexcept { return report.step >= options_.max_steps; }
  /// The member that the reporting one is to copy, if any. Members are ranked by their last report at or before this step. A member is left out if
  /// that report precedes the one that the reporting member made an interval ago. Ties are broken at random, so that a plateau is still searched. Of
  /// m members, the worst n = max(1, floor(quantile * m)) copy, and so do all with a non-finite value. The original is drawn uniformly from the n
  /// best members that rank better than the reporting one and have not ended; it always has a finite value.
  std::optional<int64_t> original_for(const Report& report, CounterRng& random) const;

 private:
  PopulationTrainingOptions options_;
  std::map<int64_t, std::vector<std::pair<int64_t, double>>> curves_;  // by trial: step and value
  std::unordered_set<int64_t> ended_;
};

/// The values that a copy of `values` tries. Frozen parameters stay. Each other value is redrawn with probability `resample`. Otherwise a number is
/// multiplied by `up` or `down`, an integer moves by at least 1, an ordinal value moves to a neighbour, and a categorical value stays. The result is
/// within limits and feasible; after ten infeasible attempts, it is `values` itself.
std::vector<double> explored(const Space& space, const std::vector<double>& values, const PopulationTrainingOptions& options, CounterRng& random);

}  // namespace tw::search
