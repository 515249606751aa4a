// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/train/objective.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>

#include "progress.hpp"

namespace tw::train {

/// Finds the best evaluation, by the figure that early stopping watches. Local.
class BestEvaluation {
 public:
  /// Borrows all arguments.
  BestEvaluation(const Objective& objective, const Options& options);

  /// Whether the evaluation in `report` is the best so far; records it in `progress`.
  bool judge(const EpochReport& report, Progress& progress) const;
  /// Forgets the best evaluation if it was judged by another figure. @return a message about that, or ""
  std::string begin_another_watch(Progress& progress) const;
  /// Why the run should end: too many evaluations without improvement. Empty: it should continue.
  std::string why_out_of_patience(const Progress& progress) const;

 private:
  bool larger_is_better() const;

  const Objective& objective_;
  const Options& options_;
};

}  // namespace tw::train
