// SPDX-License-Identifier: Apache-2.0
// The progress of a run: the part of a checkpoint besides its tensors. Pure.
#pragma once
#include <string>
#include <tw/train/report.hpp>

namespace tw::train {

struct Progress {
  int64_t epoch = 1;     ///< current epoch, from 1
  int64_t consumed = 0;  ///< samples of the epoch's order trained so far, over all ranks
  int64_t step = 0;      ///< updates
  int64_t global_batch = 0;
  int64_t seed = 0;
  std::string data;  ///< identity_of() the training, test and validation data; "" in checkpoints of older versions
  int64_t skipped = 0;
  int64_t restores = 0;
  int64_t waited = 0;  ///< evaluations since the best one
  int64_t best_epoch = 0;
  double best = 0;
  std::string watch;      ///< name of the figure whose value is `best`; "" in checkpoints of older versions
  std::string optimizer;  ///< its class, e.g. "torch::optim::Adam"; "" in checkpoints of older versions
  bool finished = false;
  Figures validation;                         ///< of the last evaluation
  Figures test;                               ///< of the finished run
  std::vector<double> loss_sums;              ///< sums of this epoch's finite losses, one per rank
  std::vector<double> loss_samples;           ///< what these means were divided by
  std::string layout;                         ///< layout_of() when it was saved; empty in checkpoints of older versions
  std::vector<double> loss_scales;            ///< one per rank, as are the next two; empty without loss scaling
  std::vector<double> good_updates;           ///< updates since the scale changed
  std::vector<double> overflows;              ///< updates skipped because gradients overflowed
  std::vector<double> first_rates;            ///< learning rates of the optimizer's groups when the run began; empty: an older version
  std::vector<double> rates;                  ///< those that hooks have set since, without the schedule's factor
  std::vector<int64_t> arrival_order;         ///< order in which gradients arrive, so that buckets compute the same bits
  std::vector<std::string> empty_submodules;  ///< for export_for_libtorch()
};

/// One rank's finite losses over the epoch's samples so far.
struct EpochLoss {
  double sum = 0;
  double weight = 0;

  void add(double mean, double of_mean) {
    sum += mean * of_mean;
    weight += of_mean;
  }
};

std::string to_json(const Progress& progress);
/// @throws Error if to_json() did not write `text`.
Progress progress_from_json(const std::string& text);

/// The part of per-rank `sums` that rank `rank` of `ranks` resumes with: its own if the number of ranks is the same; otherwise rank 0 gets the total.
double share_of(const std::vector<double>& sums, int rank, int ranks);

}  // namespace tw::train
