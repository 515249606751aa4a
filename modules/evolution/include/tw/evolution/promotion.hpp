// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/evolution/stopping.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tw::search {

class PromotionRung;

/// The last rung lies at or before `max_steps`, not before it as with halving_rule().
struct PromotionOptions : HalvingOptions {};

/// Promotion form of asynchronous successive halving: a trial pauses at its rung, and is promoted when it is among the best 1/eta there, so that
/// nothing is spent on a trial before it has earned it. Ref: Li et al. 2020, arXiv 1810.05934, algorithm 2.
///
/// With m values at a rung, a report or a query costs O(log m).
class Promotion {
 public:
  /// @throws ContractError for wrong options
  explicit Promotion(const HalvingOptions& options);
  Promotion(const Promotion&) = delete;
  Promotion& operator=(const Promotion&) = delete;
  ~Promotion();

  /// The steps at which a trial of this rung pauses, or, at the last one, ends. @throws ContractError for an unknown rung
  int64_t steps(int rung) const;
  int rungs() const noexcept;

  /// A report of a trial that next() may promote. @return whether the trial pauses: it has reached the end of a rung, and there is a higher one.
  /// NaN is not accepted; infinity is the worst value of its rung
  bool arrive(const Report& report);
  /// A report of a trial that others promote: it counts at the rungs to which it has come.
  void observe(const Report& report);

  struct Promoted {
    int64_t trial = -1;
    int rung = 0;  ///< that it is to go to
  };
  /// A trial that may go on, from the highest rung that has one; trial -1: none, so a new one begins at rung 0. It is promoted by this call.
  Promoted next();

 private:
  /// The rungs whose end a report reaches: from the first to before the second.
  std::pair<int, int> reached(const Report& report);

  std::vector<int64_t> steps_;                  // by rung
  std::vector<PromotionRung> rungs_;            // the same
  std::unordered_map<int64_t, int> next_rung_;  // by trial, of those that arrived
};

}  // namespace tw::search
