// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/train/report.hpp>

namespace tw::train {

/// Is told how a run goes. Called on rank 0 only, so it must not communicate.
class Observer {
 public:
  virtual ~Observer() = default;
  /// @param samples that the epoch will train, by all ranks.
  virtual void on_epoch_begin(int64_t epoch, int64_t samples) = 0;
  virtual void on_step(const StepReport& report) = 0;
  virtual void on_epoch_end(const EpochReport& report) = 0;
  virtual void on_end(const Summary& summary) = 0;
};

}  // namespace tw::train
