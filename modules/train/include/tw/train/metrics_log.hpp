// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fstream>
#include <tw/train/hook.hpp>

namespace tw::train {

/// Writes metrics.jsonl into the run's folder, one JSON object per line: {"event":"epoch",...} for each epoch and {"event":"summary",...} at the end.
/// Also writes the epochs to metrics.csv. Replaces the files of an earlier run. A resumed run keeps the epochs up to the step at which it resumes,
/// and appends to them. Use it on rank 0 only. If writing fails during training, lines may be lost; log_error() reports the failure once, and
/// training continues.
class MetricsLog : public Hook {
 public:
  /// Creates the folder. @throws FileError if that fails.
  explicit MetricsLog(const Options& options);

  void on_start(State& state) override;
  void on_end_epoch(State& state, const EpochReport& report) override;
  void on_end(State& state, const Summary& summary) override;

 private:
  void keep_good(std::ofstream& out);

  std::filesystem::path folder_;
  bool complained_ = false;
  std::ofstream json_;
  std::ofstream csv_;
};

}  // namespace tw::train
