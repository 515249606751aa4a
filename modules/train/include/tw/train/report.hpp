// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/clock.hpp>

namespace tw::train {

/// Where a run stands within an epoch.
struct StepReport {
  int64_t epoch = 0;    ///< from 1
  int64_t samples = 0;  ///< trained in this epoch so far, by all ranks
  double loss = 0;      ///< of this rank's batch
};

/// One epoch, exact over all ranks: sums and counts are reduced, not means.
struct EpochReport {
  int64_t epoch = 0;      ///< from 1
  double train_loss = 0;  ///< mean over the samples, each taken before the step it served in
  double test_loss = 0;
  double test_accuracy = 0;  ///< 0 to 1
  Seconds train_time{0};
  int64_t samples = 0;  ///< trained, by all ranks
};

/// A finished run.
struct Summary {
  int ranks = 1;
  int64_t epochs = 0;
  int64_t steps = 0;
  int64_t parameters = 0;  ///< trained elements
  int64_t test_samples = 0;
  double test_loss = 0;
  double test_accuracy = 0;       ///< 0 to 1
  double samples_per_s = 0;       ///< trained, by all ranks, evaluation not counted
  double exposed_comm_share = 0;  ///< time in which ranks only waited for communication, over the time of all steps; mean over ranks
  Seconds train_time{0};          ///< of all steps
};

}  // namespace tw::train
