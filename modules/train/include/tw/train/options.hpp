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
  int64_t patience = 0;        ///< evaluations without a better value before the run ends; 0: never
  double min_delta = 0;        ///< minimum improvement that counts as better
  std::string watch = "loss";  ///< "loss" or a metric of the objective, on the validation set; also selects the best model
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
  restore,  ///< restore the parameters of the newest checkpoint, at most three times, and continue with the next samples
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
  std::filesystem::path output = "runs";  ///< relative to the working directory at the trainer's construction
  int64_t epochs = 1;
  int64_t batch_size = 64;   ///< samples per rank along `data` and `shard` in an update; at most max_samples_of_a_batch
  int64_t global_batch = 0;  ///< samples of all ranks in an update; 0: batch_size * ranks. Same maximum. A resumed run keeps its first value
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
  std::filesystem::path trace = {};  ///< a timeline in Chrome's trace format; empty: none

  std::filesystem::path folder() const { return output / name; }
  /// Samples of a pass, summed over all ranks, for an update of `samples` samples. @throws ContractError unless `accumulation` divides `samples` and,
  /// under `drop` and `pad`, the number of ranks divides the samples of a pass.
  int64_t samples_of_a_pass(int64_t samples, int ranks) const;
  /// The maximum number of these samples on one rank.
  int64_t rows_of_a_pass(int64_t samples, int ranks) const;
  /// Samples per rank in an evaluation's forward pass. @param samples samples of an update
  int64_t rows_of_an_evaluation(int64_t samples, int ranks) const;
  /// Values that are valid by themselves but contradict each other.
  std::vector<Problem> contradictions() const;
  /// @throws ContractError naming the wrong field.
  void validate() const;
};
/// Visits all fields except `augmentation`, and `resume` and `trace`, which belong to a run rather than to its configuration.
void visit(Options& options, OptionVisitor& visitor);

}  // namespace tw::train
