// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/train/memory.hpp>
#include <utility>
#include <vector>

namespace tw::train {

/// Names and means over a data set: "loss" first, then the objective's metrics in their order. The means are exact over all ranks.
using Figures = std::vector<std::pair<std::string, double>>;

/// The value called `name`, or NaN.
double figure(const Figures& figures, const std::string& name);

/// One epoch. Its means are exact over all ranks, because the ranks reduce sums and counts.
struct EpochReport {
  int64_t epoch = 0;         ///< from 1
  int64_t step = 0;          ///< updates so far, over all epochs
  double train_loss = 0;     ///< mean over the samples, each with the model before the update that uses the sample; non-finite losses are excluded
  Figures validation;        ///< empty if this epoch was not evaluated
  bool best = false;         ///< whether EarlyStopping::watch is better than its best value so far by more than min_delta, or is the first value
  double learning_rate = 0;  ///< rate of the optimizer's first group in the last update
  Seconds train_time{0};
  int64_t samples = 0;  ///< samples trained, by all ranks
};

/// Statistics of the exchange between ranks and parameter servers, since this run began or resumed.
struct ServerFigures {
  double pushes_per_s = 0;  ///< pushes of all ranks per second
  double pulls_per_s = 0;   ///< pulls of all ranks per second
  /// Share of step time in which ranks waited for servers or, in some algorithms, for other ranks; mean over ranks that exchange.
  double waiting_share = 0;
  /// Entry s: the number of pushes, by all ranks, of staleness s. The staleness of a push is the number of other ranks' pushes since the pushing
  /// rank's last pull. The last entry includes all larger values.
  std::vector<int64_t> staleness;
};

/// A rank that the others waited for.
struct SlowRank {
  int rank = 0;
  std::string host;
  double share = 0;  ///< how much longer the others waited for communication than this rank, divided by the time of all steps; mean over the others
};

/// A run that has ended, for any reason.
struct Summary {
  int ranks = 1;
  int64_t epochs = 0;      ///< completed epochs, including those before a resume
  int64_t steps = 0;       ///< updates, including those before a resume
  int64_t parameters = 0;  ///< number of trained elements of the model
  int64_t test_samples = 0;
  int64_t global_batch = 0;
  Figures validation;                      ///< the last evaluation on the validation set; empty without one
  Figures test;                            ///< evaluation of the final model on the test set, which is not used before; empty unless finished
  double best = 0;                         ///< the best value of EarlyStopping::watch on the validation set
  int64_t best_epoch = 0;                  ///< 0: nothing was evaluated
  int64_t skipped_steps = 0;               ///< updates skipped because a value was not finite
  int64_t overflowed_steps = 0;            ///< updates skipped because gradients of a scaled loss overflowed; maximum over ranks
  std::string stopped_because;             ///< why the run ended early; empty: all epochs were trained
  bool diverged = false;                   ///< non-finite values ended the run
  bool finished = true;                    ///< false: the run can be resumed
  double samples_per_s = 0;                ///< training samples of all ranks per second, without evaluation; since the start or resume
  double exposed_comm_share = 0;           ///< time in which ranks only waited for communication, divided by the time of all steps; mean over ranks
  double bytes_per_step = 0;               ///< bytes that a rank contributed to the strategy's collectives per step; mean over ranks
  double waited_for_data_share = 0;        ///< time in which ranks waited for data, divided by the time of all steps; mean over ranks
  Seconds train_time{0};                   ///< time of all steps since the start or resume
  std::optional<SlowRank> slow_rank = {};  ///< set if one rank cost the others 10 % or more of their time; never with servers or a model in parts
  std::optional<ServerFigures> servers = {};  ///< set only with Meeting::parameter_server
  /// Peak memory of each rank, including evaluations and checkpoints. Empty if nothing was trained.
  std::vector<MemoryPeak> memory = {};
  /// If a timeline was written: memory during the last full step, on the rank with the highest peak.
  std::optional<StepMemory> step_memory = {};
};

}  // namespace tw::train
