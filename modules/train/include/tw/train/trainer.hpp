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
/// An update uses the next `global_batch` samples of the epoch's order, which depends only on seed and epoch. The ranks' shares of these samples may
/// be unequal or empty. A run that is killed and resumed on the same number of ranks equals an uninterrupted one bit for bit (for one exception, see
/// the constructor with a mesh). On a different number of ranks it trains the same samples in the same updates.
///
/// SIGTERM and SIGUSR1 (which batch systems send before a job's time limit) end the run after a step, with a checkpoint.
///
/// Epochs are evaluated on the validation set, which alone decides early stopping and the best model. The test set is evaluated once, when the run
/// has finished. Before that, it is only compared: between ranks, and with the test set of the run to be resumed.
///
/// If CheckpointPolicy asks for checkpoints, the run's folder contains checkpoints/, lock, best/ (a checkpoint of the parameters and buffers with the
/// best evaluation), and from the end of run() on best.safetensors, which is exported from it. A resumed run continues with the best model that its
/// checkpoint remembers; if that is not there, with an older one or, after a warning, with none.
class Trainer {
 public:
  /// Collective. Submodules keep their current modes, so those frozen by eval() stay frozen. If the whole model is in evaluation mode, all of it is
  /// put into training mode.
  /// @param optimizer over the parameters of `model`: SGD, Adam, AdamW, RMSprop or Adagrad. If ranks divide the optimizer's state, the trainer uses
  /// an optimizer with the same options over this rank's slices instead. It begins without state; hooks see it as State::optimizer. @param train,
  /// test, validation borrowed; the whole sets, on each rank. Without `validation` no epoch is evaluated and no best model is kept.
  /// @throws ContractError for a wrong option, or one that the mesh does not allow; also if the sets differ between ranks (a few samples are
  /// compared), or if several ranks hold one model and samples change from one reading to the next. @throws Error if another run holds the folder, an
  /// unfinished run would be lost, or a run would be resumed with different data, optimizer or global batch.
  Trainer(const Communicator& comm, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
          const Options& options, const Dataset* validation = nullptr);
  /// The same over a mesh. Along its axes `data` and `shard`, ranks use different samples; along `shard` they also divide the model, see
  /// ShardOptions. The other axes must be the model's axes(). Along these, ranks hold one model together and use the same samples, and each rank must
  /// have trained parameters. contradictions() in <tw/train/mesh_sizes.hpp> returns what is not supported. A resumed run restores the order
  /// in which it reduces gradients, except for a model in such parts, and for groups of replicas (ReplicaOptions::ranks_per_group): if the ranks that
  /// reduce gradients together span several nodes, the order is measured again, which can change the last bits of sums. Ranks for which
  /// TrainableModel::needs_samples() is false read no samples: their State::batch has the same number of rows, without content.
  Trainer(const Mesh& mesh, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
          const Options& options, const Dataset* validation = nullptr);
  ~Trainer();

  /// @param hook borrowed; called after hooks added earlier. Add a hook that communicates on every rank; others may be added on some ranks only.
  void add(Hook& hook);

  // For saving a run's state between epochs outside of checkpoints. Call these four functions on all ranks alike; see OptimizerState.

  /// The model, the state of its strategy, and the progress of the run. The tensors share memory with these where they can. If replicas meet seldom,
  /// load them on the same mesh with the same ReplicaOptions::ranks_per_group, or ranks of one replica get different states; resuming from a
  /// checkpoint can change both.
  std::vector<NamedShard> shards() const;
  void prepare(const std::vector<std::string>& names);
  void apply(const std::vector<NamedShard>& shards);
  /// Makes run() begin after this many epochs. Not for a run that resumes a checkpoint.
  void begin_after(int64_t epochs);

  /// Trains to the end, or until the run is stopped. Collective; call it once.
  /// @throws Error on every rank, after the hooks' on_end, if the last checkpoint or the timeline was not written. If the model, a data set or a hook
  /// throws on one rank, that rank gets its exception, and the others get a RevokedError with its message. The run's communicators are then revoked,
  /// and those of the model, too: that of a SyncBatchNorm, for example (so pass a dup()), or of split layers. To continue, make mesh, model and
  /// Trainer again. The new Trainer can resume the newest checkpoint: the final model is saved before the test set is evaluated, and again
  /// afterwards, with the test figures.
  /// @throws ContractError on every rank, with the same consequences, if an operator of the first update draws the same random numbers for different
  /// slices along `tensor`: use tensor_parallel::SplitDropout
  Summary run();
  /// Returns loss and metrics of the current model, with every sample counted once, exact over all ranks. Between two meetings of replicas that meet
  /// rarely, each rank evaluates its part of the samples with its own replica. Submodules get back the modes that they had before. Collective.
  /// @throws ContractError if the run resumes a checkpoint and run() has not been called yet. An exception on one rank ends the evaluation on all, as
  /// in run()
  Figures evaluate(const Dataset& dataset);

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace tw::train
