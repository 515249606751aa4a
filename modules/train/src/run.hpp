// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tw/comm/pending_scalar.hpp>
#include <tw/data/loader.hpp>
#include <tw/data_parallel/split_draws_check.hpp>
#include <tw/state/directory_lock.hpp>
#include <tw/tensor/memory_account.hpp>
#include <tw/train/timeline.hpp>
#include <tw/train/trainer.hpp>
#include <vector>

#include "best_evaluation.hpp"
#include "best_model.hpp"
#include "learning_rates.hpp"
#include "loss_scaling.hpp"
#include "non_finite.hpp"
#include "pass.hpp"
#include "placeholder_dataset.hpp"
#include "ranks.hpp"
#include "snapshots.hpp"
#include "strategy.hpp"

namespace tw::train {

/// The parts of a run, in the order of a step: the loader provides this rank's share of the samples, the model computes a loss, `strategy_` reduces
/// gradients and updates, `snapshots_` writes checkpoints.
class Trainer::Run {
 public:
  Run(Mesh mesh, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
      const Options& options, const Dataset* validation);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void add(Hook& hook) { hooks_.push_back(&hook); }
  std::vector<NamedShard> shards() const;
  void prepare(const std::vector<std::string>& names) { strategy_->prepare(names); }
  void apply(const std::vector<NamedShard>& shards);
  void begin_after(int64_t epochs);
  Summary run();
  Figures evaluate(const Dataset& dataset);

 private:
  bool keeps_checkpoints() const { return options_.checkpoint.every_epochs > 0 || options_.checkpoint.every_steps > 0; }
  bool tracing() const { return !options_.trace.empty(); }
  bool stopped() const { return !stopped_because_.empty(); }

  template <class Method, class... Arguments>
  void notify(Method method, const Arguments&... arguments) {
    for (Hook* hook : hooks_) (hook->*method)(*state_, arguments...);
  }
  /// Adds a timeline span that started at `begin`. @return now
  std::chrono::steady_clock::time_point span(const char* name, std::chrono::steady_clock::time_point begin);

  /// Starts counting memory for a phase; count_memory() ends it.
  void watch_memory(const char* phase);
  void count_memory();

  // Beginning and end.
  void trace();
  void make_loader();
  /// Number of the epoch's samples that are trained.
  int64_t epoch_end() const;
  void begin();
  void resume();
  bool is_to_be_tested() const;
  Summary finish(std::exception_ptr& unwritten);
  void count_into(Summary& summary);

  /// Returns the result of `call()`. If it throws on this rank, the other ranks do not wait for this one.
  template <class Call>
  auto end_on_all_ranks(const Call& call) const {
    try {
      return call();
    } catch (...) {
      revoke();
      throw;
    }
  }
  /// Ends the waits of the other ranks with the message of the exception that is being handled.
  void revoke() const;

  // An epoch.
  void train_epoch();
  void end_epoch(Seconds time);
  void keep_best();
  void stop_out_of_patience();
  void save();

  // An update.
  void update();
  Pass next_pass(int64_t index, int64_t end);
  std::vector<double> weights_of(const std::vector<Pass>& passes) const;
  double weigh(std::vector<Pass>& passes, int64_t samples);
  void backward(Pass pass, double weight);
  void forget_batch();
  bool counts_memory() const;
  bool passes_in_step() const;
  /// @return whether all losses are finite
  bool read_losses();
  LossFunction loss_of_pass(int64_t samples, double weight) const;
  void react();
  void act_on(const Outcome& outcome);
  std::string reason_to_stop();

  Mesh mesh_;
  Model model_;
  Ranks ranks_;
  Objective objective_;
  const Dataset& train_;
  const Dataset& test_;
  const Dataset* validation_;         // null: none
  PlaceholderDataset rows_of_train_;  // for ranks that read no samples
  Options options_;
  BestEvaluation best_{objective_, options_};
  std::optional<DirectoryLock> lock_;
  std::optional<Snapshots> snapshots_;
  std::optional<BestModel> best_model_;  // if there are snapshots
  LossScaling scaling_;
  Progress progress_;
  std::optional<Progress> earlier_;  // progress of the run that is yet to be resumed
  std::unique_ptr<Strategy> strategy_;
  std::optional<Loader> loader_;
  std::vector<Hook*> hooks_;
  std::optional<LearningRates> rates_;
  RunLength length_;
  int64_t begin_after_ = 0;  // in epochs
  int64_t first_step_ = 0;   // step at which this run began or resumed
  EpochLoss loss_;
  /// A pass whose loss the host has not read yet.
  struct Unread {
    PendingScalar loss;
    Batch batch;
    double weight;
    uint64_t seed;
  };
  std::vector<Unread> unread_;
  NonFiniteDiagnosis suspect_;
  SplitDrawsCheck split_draws_;
  std::optional<State> state_;
  std::string stopped_because_;
  bool diverged_ = false;
  int64_t trained_samples_ = 0;
  Seconds train_time_{0};
  Timeline timeline_;
  std::unique_ptr<MemoryAccount> memory_;  // only during run()
  int64_t whole_step_ = 0;                 // the last complete step that was traced
  std::vector<MemorySample> of_whole_step_;
};

}  // namespace tw::train
