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

/// Means over a data set: "loss" first, then the objective's metrics in their order. Exact over all ranks.
using Figures = std::vector<std::pair<std::string, double>>;

/// The value called `name`, or NaN.
double figure(const Figures& figures, const std::string& name);

/// One epoch, exact over all ranks: sums and counts are reduced, not means.
struct EpochReport {
  int64_t epoch = 0;      ///< from 1
  int64_t step = 0;       ///< updates so far
  double train_loss = 0;  ///< mean over the samples, each computed before the update that uses it; losses that are not finite are left out
  Figures validation;     ///< empty where this epoch was not evaluated
  bool best = false;      ///< better than all before
  double learning_rate = 0;
  Seconds train_time{0};
  int64_t samples = 0;  ///< trained, by all ranks
};

/// The exchange between ranks and parameter servers, since the start or the resume.
struct ServerFigures {
  double pushes_per_s = 0;   ///< of all ranks
  double pulls_per_s = 0;    ///< likewise
  double waiting_share = 0;  ///< time in which ranks waited for servers, or, in some algorithms, for other ranks, over the time of all steps
  /// Pushes of all ranks by their age: how many pushes of others had come since the pull before. The last entry is that many or more.
  std::vector<int64_t> staleness;
};

/// A rank that the others waited for.
struct SlowRank {
  int rank = 0;
  std::string host;
  double share = 0;  ///< time in which the others waited longer for communication than it did itself, over the time of all steps; mean over them
};

/// A run that has ended, for any reason.
struct Summary {
  int ranks = 1;
  int64_t epochs = 0;      ///< completed, those before a resume included
  int64_t steps = 0;       ///< updates, those before a resume included
  int64_t parameters = 0;  ///< trained elements
  int64_t test_samples = 0;
  int64_t global_batch = 0;
  Figures validation;                         ///< the last evaluation on the validation set; empty without one
  Figures test;                               ///< of the model at the end, on the test set, which nothing looks at before; empty unless finished
  double best = 0;                            ///< the best value of what early stopping watches, on the validation set
  int64_t best_epoch = 0;                     ///< 0: nothing was evaluated
  int64_t skipped_steps = 0;                  ///< left out because something was not finite
  int64_t overflowed_steps = 0;               ///< left out because gradients of a scaled loss overflowed; of the rank that left out most
  std::string stopped_because;                ///< empty: all epochs were trained
  bool diverged = false;                      ///< numbers that are not finite ended it
  bool finished = true;                       ///< false: to be resumed
  double samples_per_s = 0;                   ///< trained, by all ranks, evaluation not counted; since the start or the resume
  double exposed_comm_share = 0;              ///< time in which ranks only waited for communication, over the time of all steps; mean over ranks
  double bytes_per_step = 0;                  ///< that a rank gave to the strategy's collectives
  double waited_for_data_share = 0;           ///< the same for data
  Seconds train_time{0};                      ///< of all steps since the start or the resume
  std::optional<SlowRank> slow_rank = {};     ///< where ranks meet, and one took 10 % or more of the others' time
  std::optional<ServerFigures> servers = {};  ///< of strategy parameter_server
  /// By rank: when it held most memory, evaluations and checkpoints included. Empty where nothing was trained.
  std::vector<MemoryPeak> memory = {};
  /// Where a timeline was written: the last whole step of the rank that held most.
  std::optional<StepMemory> step_memory = {};
};

}  // namespace tw::train
