// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/synchronize.hpp>
#include <tw/state/checkpoint_store.hpp>
#include <tw/train/model.hpp>
#include <tw/train/options.hpp>

#include "loss_scaling.hpp"
#include "progress.hpp"
#include "strategy.hpp"

namespace tw::train {

/// Parameters, buffers, and what the strategy remembers; shares memory.
std::vector<NamedShard> shards_of(const Model& model, const Strategy& strategy);

/// The checkpoints of one run: the model, what its strategy remembers, and how far the run has come.
class Snapshots {
 public:
  /// Collective. All arguments are borrowed.
  Snapshots(const Ranks& ranks, const Model& model, const Options& options);

  /// The step of the newest checkpoint, whether it can be read or not. Collective.
  std::optional<int64_t> last_step() const;
  /// How far the newest checkpoint that can be read has come; `step` is its own. Collective.
  std::optional<Progress> newest() const;
  /// Takes the tensors of the checkpoint of `step`. Collective.
  Progress restore(int64_t step, Strategy& strategy);
  /// Collective. The tensors are copied now and written while training goes on.
  void save(Progress progress, const EpochLoss& loss, const LossScaling& scaling, const Strategy& strategy);
  /// To be called every step by all ranks: carries writing on. A checkpoint that cannot be written is reported, and training goes on.
  void poll();
  /// Until what is being written is, or was reported. Collective.
  void settle();
  /// The same, for the last one: @throws Error on every rank alike when it was not written.
  void finish() { store_.wait(); }
  /// See CheckpointStore::memory().
  const at::Tensor& memory() const { return store_.memory(); }
  /// Collective.
  void remove_all() { store_.remove_all(); }

 private:
  template <class Call>
  void report_failure_of(Call call) const;

  Ranks ranks_;
  const Model& model_;
  CheckpointStore store_;
};

}  // namespace tw::train
