// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/state/checkpoint.hpp>

#include "progress.hpp"

namespace tw::train {

/// best.safetensors in a run's folder: the best model for other programs. Its metadata has the epoch and the figure. Local: rank 0 alone uses the
/// file.
class BestExport {
 public:
  explicit BestExport(std::filesystem::path path) : path_(std::move(path)) {}

  /// `checkpoint` with the best evaluation of the exported model. Its epoch is 0 if there is no export, or one that this checkpoint cannot remember.
  Progress evaluation(const Progress& checkpoint) const;
  bool exists() const { return std::filesystem::exists(path_); }
  /// Exports `best`, unless the file has been exported from it.
  void write(const Checkpoint& best) const;
  void remove() const;
  /// Removes partial files left by a killed run.
  void remove_partials() const;

 private:
  std::filesystem::path path_;
};

}  // namespace tw::train
