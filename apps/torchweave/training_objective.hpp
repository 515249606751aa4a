// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <tw/base/config.hpp>
#include <tw/search/trial.hpp>
#include <vector>

#include "train_setup.hpp"

namespace tw::tool {

struct TrainingOptions {
  Config base = {};      ///< a training configuration
  Config settings = {};  ///< settings that replace values of `base`
  /// "error" (1 - accuracy), "loss" or "mae": figures on the validation set, in the epoch that is the best by the first of them. "seconds": duration
  /// of the trial. Empty: "error" if the data have it, otherwise "loss".
  std::vector<std::string> objectives = {};
  std::filesystem::path folder;  ///< folder for checkpoints of trials, which are written only if the settings ask for them
  const Communicator& ranks;     ///< all ranks of the search, among which devices are shared out; borrowed
};

/// Trains a network for each trial, on the ranks of the worker, and returns the objectives. The first figure on the validation set is reported after
/// each epoch. Between two epochs, trials can pause and copy each other. No trial uses the test set.
class TrainingObjective {
 public:
  /// Collective over the ranks. @throws ConfigError if the data do not have an objective, if there is no validation set, if a parameter is not a key
  /// of a training configuration, or if one of its limits is not a valid value of that key; FileError if data are missing
  TrainingObjective(const search::Space& space, TrainingOptions options);

  search::Outcome operator()(const search::Configuration& configuration, search::Trial& trial);
  /// Trains with `values` once more and returns the figures of its best epoch's model on the test set. Collective over `comm`.
  /// @param run name of the folder for its checkpoints
  train::Figures test(const search::Space& space, const std::vector<double>& values, const Communicator& comm, const std::string& run);
  /// All settings of a trial, including those of the base.
  Config config_for(const search::Space& space, const std::vector<double>& values) const;
  const std::vector<std::string>& objectives() const noexcept { return options_.objectives; }
  /// The maximum number of epochs of a trial.
  int64_t epochs() const noexcept { return epochs_; }
  const StallOptions& stall() const noexcept { return stall_; }

 private:
  TrainConfig read(const search::Space& space, const std::vector<double>& values) const;
  /// The configuration of the run `name`.
  TrainConfig config_of_run(const search::Space& space, const std::vector<double>& values, const std::string& name) const;
  std::vector<std::string> figures() const;
  const TrainData& data(const DataOptions& options);

  TrainingOptions options_;
  int64_t epochs_ = 0;
  StallOptions stall_ = {};
  DataOptions opened_ = {};  // what `data_` was opened with
  TrainData data_ = {};
  c10::Device device_;  // of this rank
};

}  // namespace tw::tool
