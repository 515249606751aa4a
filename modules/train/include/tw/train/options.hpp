// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tw/base/option.hpp>
#include <tw/data/distributed_sampler.hpp>
#include <tw/data/loader.hpp>
#include <tw/train/learning_rate.hpp>
#include <tw/train/precision.hpp>
#include <tw/train/replica_options.hpp>
#include <tw/train/shard_options.hpp>
#include <vector>

namespace tw::train {

struct CheckpointPolicy {
  int64_t every_epochs = 1;  ///< epochs between checkpoints; 0: no checkpoints by epoch
  int64_t every_steps = 0;   ///< updates between checkpoints; 0: no checkpoints by update
  int64_t keep = 2;          ///< number of newest checkpoints to keep
};
void visit(CheckpointPolicy& policy, OptionVisitor& visitor);

struct EarlyStopping {
  int64_t patience = 0;        ///< evaluations without a better value before the run ends; 0: no early end
  double min_delta = 0;        ///< minimum improvement that counts as better
  std::string watch = "loss";  ///< value by which "better" and the best model are judged, on the validation set: "loss" or a metric of the objective
};
void visit(EarlyStopping& stopping, OptionVisitor& visitor);

struct EvaluateOptions {
  int64_t batch_size = 0;  ///< samples per rank in an evaluation's forward pass; 0: as in a training pass
};
void visit(EvaluateOptions& evaluate, OptionVisitor& visitor);

struct ClipOptions {
  /// Maximum gradient norm; larger gradients are scaled down before an update. It is the 2-norm of all gradients of the model, each element counted
  /// once, over the whole mesh. If replicas step independently, such as with Meeting::local_sgd, each uses its own gradients. 0: no clipping.
  double norm = 0;
};
void visit(ClipOptions& clip, OptionVisitor& visitor);

/// What to do if a loss or gradient on any rank is not finite.
enum class NonFinite {
  stop,     ///< end the run; this is not an error: Summary::diverged is set
  skip,     ///< skip this update
  restore,  ///< restore model and optimizer from the newest checkpoint, at most three times, and continue with the next samples; after that, stop
};

/// What to do if an earlier run of the same name has checkpoints.
enum class Resume {
  refuse,  ///< start a new run; an error if that would lose an unfinished run, or one whose newest checkpoint is damaged
  resume,  ///< continue from the newest intact checkpoint; start a new run if there is no checkpoint. An error if all are damaged
  fresh,   ///< always start a new run
};

constexpr int64_t max_samples_of_a_batch = 100'000'000;

/// Why `name` cannot be a run's name, which is also its folder's name; "" if it can.
std::string why_no_name(const std::string& name);

struct Options {
  std::string name = "run";               ///< the run's folder is output / name; a single folder name, without "/" or control characters
  std::filesystem::path output = "runs";  ///< folder of all runs; a relative path refers to the working directory when the Trainer is constructed
  int64_t epochs = 1;
  int64_t batch_size = 64;   ///< samples in an update for each rank along the mesh axes `data` and `shard`; at most max_samples_of_a_batch
  int64_t global_batch = 0;  ///< samples of all ranks in an update (same maximum); 0: batch_size * those ranks. A resumed run keeps its first value
  int64_t accumulation = 1;  ///< number of passes that share the samples of an update, to save memory
  int64_t seed = 0;          ///< seed of the order of samples, augmentation and the model's random numbers
  Uneven uneven = Uneven::exact;
  bool drop_last = false;      ///< skip an epoch's last update if it has fewer samples than the others
  int64_t evaluate_every = 1;  ///< epochs between evaluations on the validation set
  EvaluateOptions evaluate = {};
  ClipOptions clip = {};
  ShardOptions shard = {};
  ReplicaOptions replicas = {};
  PrecisionOptions precision = {};
  LearningRateOptions schedule = {};
  CheckpointPolicy checkpoint = {};
  EarlyStopping early_stopping = {};
  NonFinite non_finite = NonFinite::stop;
  Resume resume = Resume::refuse;
  int64_t loader_workers = 1;        ///< threads that prepare batches; at most LoaderOptions::max_workers
  Augmentation augmentation = {};    ///< augmentation of the training set
  std::filesystem::path trace = {};  ///< file for a timeline in Chrome's trace format; empty: none

  std::filesystem::path folder() const { return output / name; }
  /// The number of samples in a pass, summed over all ranks, if an update has `samples` samples. @param ranks number of ranks along `data` and
  /// `shard` @throws ContractError if `accumulation` does not divide `samples`; under `drop` and `pad`, also if `ranks` does not divide the samples
  /// of a pass.
  int64_t samples_of_a_pass(int64_t samples, int ranks) const;
  /// The largest number of samples that one rank has in such a pass.
  int64_t rows_of_a_pass(int64_t samples, int ranks) const;
  /// Samples per rank in an evaluation's forward pass. @param samples samples of an update
  int64_t rows_of_an_evaluation(int64_t samples, int ranks) const;
  /// Fields that contradict each other, and a `name` that cannot be used.
  std::vector<Problem> contradictions() const;
  /// @throws ContractError naming the wrong field.
  void validate() const;
};
/// Visits all fields except `augmentation`, `resume` and `trace`. The last two belong to a run rather than to its configuration.
void visit(Options& options, OptionVisitor& visitor);

}  // namespace tw::train
