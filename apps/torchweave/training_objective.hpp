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
  Config settings = {};  ///< what replaces values of it
  /// "error" (1 - accuracy), "loss", "mae", of the test set in the best epoch by the first of these; "seconds" that the trial took. Empty: "error"
  /// where there is one, or else "loss".
  std::vector<std::string> objectives = {};
  std::filesystem::path folder;  ///< for checkpoints of trials, which are kept only where the settings say so
  const Communicator& ranks;     ///< all that search together, who share out the devices; borrowed
};

/// Trains a network on the ranks of the worker for each trial, and gives its objectives. The first one of the test set is reported for each epoch,
/// and trials can pause, and copy each other, between two epochs.
class TrainingObjective {
 public:
  /// Collective over the ranks. @throws ConfigError for an objective that the data do not have, and when a parameter is no key of a training
  /// configuration, or one of its limits no value of it; FileError for missing data
  TrainingObjective(const search::Space& space, TrainingOptions options);

  search::Outcome operator()(const search::Configuration& configuration, search::Trial& trial);
  /// All settings of a trial, those of the base included.
  Config config_for(const search::Space& space, const std::vector<double>& values) const;
  const std::vector<std::string>& objectives() const noexcept { return options_.objectives; }
  /// The most of a trial.
  int64_t epochs() const noexcept { return epochs_; }
  const StallOptions& stall() const noexcept { return stall_; }

 private:
  TrainConfig read(const search::Space& space, const std::vector<double>& values) const;
  const TrainData& data(const DataOptions& options);

  TrainingOptions options_;
  int64_t epochs_ = 0;
  StallOptions stall_ = {};
  DataOptions opened_ = {};  // what `data_` was opened with
  TrainData data_ = {};
  c10::Device device_;  // of this rank
};

}  // namespace tw::tool
