// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>

#include "progress.hpp"

namespace tw::train {

/// Tracks the best evaluation, by the figure that early stopping watches, and keeps its model in a file. Local.
class BestModel {
 public:
  /// Borrows all arguments.
  BestModel(const Model& model, const Objective& objective, const Options& options);

  /// Whether the evaluation in `report` is the best so far; records it in `progress`.
  bool judge(const EpochReport& report, Progress& progress) const;
  /// Forgets the best evaluation if it was judged by another figure. @return a message about that, or ""
  std::string begin_another_watch(Progress& progress) const;
  /// Why the run should end: too many evaluations without improvement. Empty: it should continue.
  std::string why_out_of_patience(const Progress& progress) const;
  /// Writes the model. @param tensors all parameters and buffers. Errors are logged; training continues.
  void keep(const Progress& progress, const std::vector<NamedTensor>& tensors) const;
  /// Removes the file of an earlier run.
  void forget() const;
  /// Removes a partial file left by a killed run.
  void remove_partial() const;

 private:
  std::filesystem::path path() const { return options_.folder() / "best.safetensors"; }
  bool larger_is_better() const;

  const Model& model_;
  const Objective& objective_;
  const Options& options_;
};

}  // namespace tw::train
