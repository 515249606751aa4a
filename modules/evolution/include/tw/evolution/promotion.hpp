// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/evolution/stopping.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tw::search {

class PromotionRung;

/// Options of Promotion. Its last rung lies at or before `max_steps`; with halving_rule(), the last rung lies strictly before.
struct PromotionOptions : HalvingOptions {};

/// Promotion form of asynchronous successive halving (see HalvingOptions for rungs). A trial pauses at each rung, and continues to the next one (is
/// promoted) when it is among the best 1/eta of the rung. No steps are thus spent on a trial before it has earned them. Ref: Li et al. 2020, arXiv
/// 1810.05934, algorithm 2.
///
/// Cost of arrive(), observe() and next(): O(log m) with m values at a rung.
class Promotion {
 public:
  /// @param options the last rung lies at or before `max_steps`. @throws ContractError for wrong options
  explicit Promotion(const HalvingOptions& options);
  Promotion(const Promotion&) = delete;
  Promotion& operator=(const Promotion&) = delete;
  ~Promotion();

  /// The step at which a trial of this rung pauses; at the last rung it ends. @throws ContractError for an unknown rung
  int64_t steps(int rung) const;
  int rungs() const noexcept;

  /// Records a report of a trial that next() may promote. Infinity is the worst value of a rung; reports of NaN are ignored. @return whether the
  /// trial pauses, because it has reached the end of a rung that is not the last
  bool arrive(const Report& report);
  /// Records a report of a trial that another process promotes: the report counts at the rungs that it newly reaches.
  void observe(const Report& report);

  struct Promoted {
    int64_t trial = -1;
    int rung = 0;  ///< the rung to which the trial continues
  };
  /// Promotes a trial, from the highest rung that has a candidate, and returns it. Returns `trial` -1 if there is no candidate: start a new trial at
  /// rung 0.
  Promoted next();

 private:
  /// The rungs whose end a report reaches, as a half-open range [first, second).
  std::pair<int, int> reached(const Report& report);

  std::vector<int64_t> steps_;                  // by rung
  std::vector<PromotionRung> rungs_;            // by rung
  std::unordered_map<int64_t, int> next_rung_;  // by trial, for trials that have arrived
};

}  // namespace tw::search
