// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/state/checkpoint_store.hpp>
#include <tw/train/model.hpp>
#include <tw/train/options.hpp>

#include "loss_scaling.hpp"
#include "progress.hpp"
#include "strategy.hpp"

namespace tw::train {

/// Parameters, buffers and the strategy's state; shares memory.
std::vector<NamedShard> shards_of(const Model& model, const Strategy& strategy);

/// What decides which rank holds which elements of which replica, if replicas differ: such as "2 replicas on data=4 x stage=2".
std::string layout_of(const Ranks& ranks, const Strategy& strategy);

/// Whether a rank's own values in a checkpoint belong to its replica now, if the number of ranks is the same.
bool has_layout_of(const Progress& progress, const Ranks& ranks, const Strategy& strategy);

/// The checkpoints of one run: the model, the strategy's state and the progress.
class Snapshots {
 public:
  /// Collective. Borrows all arguments.
  Snapshots(const Ranks& ranks, const Model& model, const Options& options);

  /// Step of the newest checkpoint, readable or not. Collective.
  std::optional<int64_t> last_step() const;
  /// Progress of the newest readable checkpoint; `step` is the checkpoint's. Collective.
  std::optional<Progress> newest() const;
  /// Loads the tensors of the checkpoint of `step`. If layout_of() has changed, each replica gets the mean of those that saved. Collective.
  Progress restore(int64_t step, Strategy& strategy);
  /// Collective. Copies the tensors now; they are written while training continues.
  void save(Progress progress, const EpochLoss& loss, const LossScaling& scaling, const Strategy& strategy);
  /// Call on all ranks in every step: advances writing. If a checkpoint cannot be written, an error is logged and training continues.
  void poll();
  /// Waits until the checkpoint in progress is written or its failure is logged. Collective.
  void settle();
  /// The same for the last checkpoint. @throws Error on every rank if it was not written.
  void finish() { store_.wait(); }
  /// See CheckpointStore::memory().
  const at::Tensor& memory() const { return store_.memory(); }
  /// Collective.
  void remove_all() { store_.remove_all(); }

 private:
  Ranks ranks_;
  const Model& model_;
  CheckpointStore store_;
};

}  // namespace tw::train
