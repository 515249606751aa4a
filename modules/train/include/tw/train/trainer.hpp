// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/comm/mesh.hpp>
#include <tw/data/dataset.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/train/hook.hpp>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>

namespace tw::train {

/// Trains a model on all ranks, with checkpoints that any number of ranks can resume.
///
/// An update takes the next `global_batch` samples of the epoch's order, which depends on seed and epoch alone; each rank has its share of them,
/// which may be unequal or empty. A run that is killed and resumed on as many ranks has the bits of one that was not; on another number of ranks it
/// trains the same samples in the same updates.
///
/// SIGTERM and SIGUSR1 (what batch systems send before a job's time is over) end the run after a step, with a checkpoint.
///
/// Epochs are evaluated on the validation set, and only that decides anything: early stopping, and which model is the best. The test set is looked
/// at once, when the run has finished.
///
/// In the run's folder: checkpoints/, best.safetensors (parameters and buffers of the best evaluation), lock.
class Trainer {
 public:
  /// Collective. Submodules train in the modes in which they are: what eval() has frozen stays frozen. Where the whole model is in
  /// evaluation mode, all of it is put into training mode.
  /// @param optimizer over the parameters of `model`: SGD, Adam, AdamW, RMSprop or Adagrad. @param train, test, validation borrowed. Without
  /// `validation` no epoch is evaluated and no best model is kept.
  /// @throws ContractError for a wrong option; Error when another run holds the folder, an unfinished run would be lost, or one would be resumed with
  /// other data, another optimizer or another global batch.
  Trainer(const Communicator& comm, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
          const Options& options, const Dataset* validation = nullptr);
  /// The same over a mesh: along its axis `data` ranks take different samples; along the others, which are the model's axes(), they hold one model
  /// together, take the same samples, and every one of them has parameters that are trained. The strategy is `data`. A resumed run finds the order
  /// in which it reduces gradients again. Where the model needs no samples of a rank, none are read: State::batch has their rows, without content.
  Trainer(const Mesh& mesh, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
          const Options& options, const Dataset* validation = nullptr);
  ~Trainer();

  /// @param hook borrowed; called after those added before. On every rank, or on some: a hook that communicates, on every rank.
  void add(Hook& hook);

  // To keep the state of a run between two epochs elsewhere than in checkpoints. On all ranks alike; see OptimizerState.

  /// The model, the state of its strategy, and the progress of the run; shares memory where it can.
  std::vector<NamedShard> shards() const;
  void prepare(const std::vector<std::string>& names);
  void apply(const std::vector<NamedShard>& shards);
  /// run() begins after this many epochs. Not for a run that resumes a checkpoint.
  void begin_after(int64_t epochs);

  /// Trains to the end, or until something ends it. Collective, once. @throws Error on every rank, after the hooks' on_end, when the last checkpoint
  /// or the timeline was not written. If the test set cannot be evaluated, even on one rank only, throws that error, after the checkpoint is written.
  Summary run();
  /// Loss and metrics of the model as it is now, every sample once, exact over all ranks. Leaves modes as they were. Collective.
  Figures evaluate(const Dataset& dataset);

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace tw::train
