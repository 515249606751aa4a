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
#include <tw/train/strategy_options.hpp>
#include <vector>

namespace tw::train {

struct CheckpointPolicy {
  int64_t every_epochs = 1;  ///< 0: never for this reason
  int64_t every_steps = 0;   ///< 0: never for this reason
  int64_t keep = 2;          ///< number of the newest that stay
};
void visit(CheckpointPolicy& policy, OptionVisitor& visitor);

struct EarlyStopping {
  int64_t patience = 0;        ///< evaluations without a better value before the run ends; 0: never
  double min_delta = 0;        ///< what counts as better
  std::string watch = "loss";  ///< "loss" or a metric of the objective, on the validation set; the best model is kept by it too
};
void visit(EarlyStopping& stopping, OptionVisitor& visitor);

struct EvaluateOptions {
  int64_t batch_size = 0;  ///< samples of one rank in a forward pass of an evaluation; 0: the number of a training pass
};
void visit(EvaluateOptions& evaluate, OptionVisitor& visitor);

/// What to do about a loss or a gradient that is not finite, on whichever rank.
enum class NonFinite {
  stop,     ///< end the run, as a result, not as an error
  skip,     ///< leave this update out
  restore,  ///< go back to the parameters of the newest checkpoint, three times at most, and go on with the next samples
};

/// What to do with checkpoints of an earlier run of the same name.
enum class Resume {
  refuse,  ///< start again, unless that would lose an unfinished run, or a run whose newest checkpoint is damaged: that is an error
  resume,  ///< continue it, from the newest checkpoint that is whole; begin where there is none. Where all are damaged, that is an error
  fresh,   ///< start again in any case
};

constexpr int64_t max_samples_of_a_batch = 100'000'000;

/// Why `name` cannot be the name of a run, whose folder is called so; "" where it can.
std::string why_no_name(const std::string& name);

struct Options {
  std::string name = "run";               ///< the run's folder is output / name: one folder's name, without "/" and control characters
  std::filesystem::path output = "runs";  ///< relative to the working directory in which the trainer is made
  int64_t epochs = 1;
  int64_t batch_size = 64;   ///< samples of one rank in one update; at most max_samples_of_a_batch, as the next
  int64_t global_batch = 0;  ///< samples of all ranks in one update; 0: batch_size times the ranks. A resumed run keeps its own
  int64_t accumulation = 1;  ///< number of passes that share the samples of an update, to save memory
  /// To which gradients are scaled down before an update: the 2-norm of all gradients of the model, each element once, wherever it lies. Where ranks
  /// step alone, such as with local_sgd, of each rank's own. 0: they are left alone.
  double max_gradient_norm = 0;
  int64_t seed = 0;  ///< of the order of samples, of augmentation and of what the model draws
  Uneven uneven = Uneven::exact;
  bool drop_last = false;      ///< leave out an epoch's last update where it would have fewer samples than the others
  int64_t evaluate_every = 1;  ///< epochs
  EvaluateOptions evaluate = {};
  StrategyOptions strategy = {};
  PrecisionOptions precision = {};
  LearningRateOptions schedule = {};
  CheckpointPolicy checkpoint = {};
  EarlyStopping early_stopping = {};
  NonFinite non_finite = NonFinite::stop;
  Resume resume = Resume::refuse;
  int64_t loader_workers = 1;        ///< threads that prepare batches; at most LoaderOptions::max_workers
  Augmentation augmentation = {};    ///< of the training set
  std::filesystem::path trace = {};  ///< a timeline in Chrome's trace format; empty: none

  std::filesystem::path folder() const { return output / name; }
  /// Those of all ranks, where an update takes `samples` of all ranks. @throws ContractError unless `accumulation` divides them and, under `drop` and
  /// `pad`, the ranks a pass.
  int64_t samples_of_a_pass(int64_t samples, int ranks) const;
  /// The most that one rank has of them.
  int64_t rows_of_a_pass(int64_t samples, int ranks) const;
  /// Of one rank in a forward pass of an evaluation. @param samples of an update
  int64_t rows_of_an_evaluation(int64_t samples, int ranks) const;
  /// Values that are valid alone and contradict each other.
  std::vector<Problem> contradictions() const;
  /// @throws ContractError naming the wrong field.
  void validate() const;
};
/// All but `resume` and `trace`, which are of a run rather than of its configuration.
void visit(Options& options, OptionVisitor& visitor);

}  // namespace tw::train
