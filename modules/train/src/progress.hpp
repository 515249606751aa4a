// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds beside tensors: how far a run has come. Pure.
#pragma once
#include <string>
#include <tw/train/report.hpp>

namespace tw::train {

struct Progress {
  int64_t epoch = 1;     ///< in progress, from 1
  int64_t consumed = 0;  ///< samples of the epoch's order that all ranks have trained
  int64_t step = 0;      ///< updates
  int64_t global_batch = 0;
  int64_t seed = 0;
  std::string data;  ///< identity_of() what is trained on and tested with; "" in checkpoints of older versions
  int64_t skipped = 0;
  int64_t restores = 0;
  int64_t waited = 0;  ///< evaluations since the best one
  int64_t best_epoch = 0;
  double best = 0;
  std::string watch;      ///< what `best` is a value of; "" in checkpoints of older versions
  std::string optimizer;  ///< its class, such as "torch::optim::Adam"; "" in checkpoints of older versions
  bool finished = false;
  Figures validation;                         ///< of the last evaluation
  Figures test;                               ///< of the finished run
  std::vector<double> loss_sums;              ///< of this epoch's finite losses, one a rank
  std::vector<double> loss_samples;           ///< how many these are
  std::vector<double> loss_scales;            ///< one a rank, as are the next two; none where losses are not scaled
  std::vector<double> good_updates;           ///< since the scale changed
  std::vector<double> overflows;              ///< updates that were left out because gradients overflowed
  std::vector<int64_t> arrival_order;         ///< of gradients, for buckets that give the same bits
  std::vector<std::string> empty_submodules;  ///< for export_for_libtorch()
};

/// Of one rank, over the samples of an epoch so far, where finite.
struct EpochLoss {
  double sum = 0;
  double samples = 0;

  void add(double mean, int64_t count) {
    sum += mean * static_cast<double>(count);
    samples += static_cast<double>(count);
  }
};

std::string to_json(const Progress& progress);
/// @throws Error when `text` is not what to_json() writes.
Progress progress_from_json(const std::string& text);

/// What rank `rank` of `ranks` takes over of sums, one a rank: its own where the number of ranks is the same, else rank 0 takes all.
double share_of(const std::vector<double>& sums, int rank, int ranks);

}  // namespace tw::train
