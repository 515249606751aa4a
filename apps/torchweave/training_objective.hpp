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
  /// "error" (1 - accuracy), "loss", "mae", on the validation set in the best epoch by the first of these; "seconds" that the trial took. Empty:
  /// "error" where there is one, or else "loss".
  std::vector<std::string> objectives = {};
  std::filesystem::path folder;  ///< for checkpoints of trials, which are kept only where the settings say so
  const Communicator& ranks;     ///< all that search together, who share out the devices; borrowed
};

/// Trains a network on the ranks of the worker for each trial, and returns its objectives. The first one on the validation set is reported for each
/// epoch, and trials can pause, and copy each other, between two epochs. No trial looks at the test set.
class TrainingObjective {
 public:
  /// Collective over the ranks. @throws ConfigError for an objective that the data do not have, without a validation set, and when a parameter is no
  /// key of a training configuration, or one of its limits no value of it; FileError for missing data
  TrainingObjective(const search::Space& space, TrainingOptions options);

  search::Outcome operator()(const search::Configuration& configuration, search::Trial& trial);
  /// Trains with `values` once more and returns the figures of its best epoch's model on the test set. Collective over `comm`.
  /// @param run the folder for its checkpoints is called so
  train::Figures test(const search::Space& space, const std::vector<double>& values, const Communicator& comm, const std::string& run);
  /// All settings of a trial, those of the base included.
  Config config_for(const search::Space& space, const std::vector<double>& values) const;
  const std::vector<std::string>& objectives() const noexcept { return options_.objectives; }
  /// The most of a trial.
  int64_t epochs() const noexcept { return epochs_; }
  const StallOptions& stall() const noexcept { return stall_; }

 private:
  TrainConfig read(const search::Space& space, const std::vector<double>& values) const;
  /// The run of a trial.
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
