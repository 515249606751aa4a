// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fstream>
#include <tw/train/observer.hpp>
#include <tw/train/options.hpp>

namespace tw::train {

/// Writes output / name / metrics.jsonl, one JSON object a line: {"event":"epoch",...} for each epoch and at last {"event":"summary",...}.
/// A file of an earlier run is replaced.
class MetricsLog : public Observer {
 public:
  /// Makes the folder. @throws FileError when that fails.
  explicit MetricsLog(const Options& options);

  void on_epoch_begin(int64_t epoch, int64_t samples) override;
  void on_step(const StepReport& report) override;
  void on_epoch_end(const EpochReport& report) override;
  void on_end(const Summary& summary) override;

 private:
  std::ofstream out_;
};

}  // namespace tw::train
