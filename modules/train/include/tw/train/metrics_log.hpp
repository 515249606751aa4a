// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fstream>
#include <tw/train/hook.hpp>

namespace tw::train {

/// Writes metrics.jsonl into the run's folder, one JSON object a line: {"event":"epoch",...} for each epoch and at last {"event":"summary",...}; and
/// the epochs as metrics.csv. Files of an earlier run are replaced; those of a resumed run are continued after the step that it resumes. For rank 0
/// alone. A line that cannot be written may be lost, which log_error() reports once; training goes on.
class MetricsLog : public Hook {
 public:
  /// Makes the folder. @throws FileError when that fails.
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
