// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>

#include "progress.hpp"

namespace tw::train {

/// Which evaluation was the best, by what early stopping watches, and the file that keeps its model. Local.
class BestModel {
 public:
  /// All arguments are borrowed.
  BestModel(const Model& model, const Objective& objective, const Options& options);

  /// Whether the evaluation in `report` is better than all before; `progress` remembers it.
  bool judge(const EpochReport& report, Progress& progress) const;
  /// Forgets the best evaluation where it was judged by something else, and returns a line about that; or nothing, and returns "".
  std::string begin_another_watch(Progress& progress) const;
  /// Why the run should end: too many evaluations without a better one. Empty: it should not.
  std::string why_out_of_patience(const Progress& progress) const;
  /// Writes the model. @param tensors all parameters and buffers. What goes wrong is logged; training goes on.
  void keep(const Progress& progress, const std::vector<NamedTensor>& tensors) const;
  /// Removes the file of an earlier run.
  void forget() const;
  /// Removes what a run that was killed left of one.
  void remove_partial() const;

 private:
  std::filesystem::path path() const { return options_.folder() / "best.safetensors"; }
  bool larger_is_better() const;

  const Model& model_;
  const Objective& objective_;
  const Options& options_;
};

}  // namespace tw::train
