// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/state/checkpoint_store.hpp>
#include <tw/train/model.hpp>
#include <tw/train/options.hpp>

#include "best_export.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "snapshots.hpp"
#include "strategy.hpp"

namespace tw::train {

/// The models of the best evaluations, in a run's folder:
///
///     best/step_00000042/    a checkpoint of the parameters and buffers after step 42; its metadata names epoch and figure
///     best.safetensors       an export of the best one, written when the run ends
///
/// A killed run resumes from a checkpoint of the run. The best model that this checkpoint remembers must be there:
///   a. keep() begins to write a model after its evaluation. Earlier models stay.
///   b. settle() returns when the model is complete. The run calls it before it saves a checkpoint, which remembers the model.
///   c. keep() and finish() remove models that are out of date: neither the newest one, nor the one that the newest checkpoint remembers.
///   d. resume() removes models of later steps, whose evaluations the run repeats. The newest of the others, or of their exports, counts as the best.
/// So there are at most three models while a run trains, and one or two at its end.
///
/// If a model cannot be written, or a folder cannot be listed, an error is logged and training continues.
class BestModel {
 public:
  /// Removes partial files left by a killed run. Collective. Borrows all arguments.
  BestModel(const Ranks& ranks, const Model& model, const Options& options);

  /// Copies the model now, and begins to write it; training continues until the run saves a checkpoint, which waits. Collective. Replicas must have
  /// met. @param checkpoints of the run, none in progress
  void keep(const Progress& progress, const Strategy& strategy, const Snapshots& checkpoints);
  /// Call on all ranks in every step: advances writing.
  void poll();
  /// Waits until the model in progress is written or its failure is logged. Collective.
  void settle();
  /// Continues from a checkpoint of the run. Collective. @param progress of that checkpoint; gets the best evaluation whose model is there, in best/
  /// or exported. If none is, logs a warning and forgets the best evaluation
  void resume(Progress& progress);
  /// Waits until the model in progress is written, and exports the best one if that has not been done. Collective. @param checkpoints as for keep()
  void finish(const Snapshots& checkpoints);
  /// Removes all models, and the export. Collective.
  void remove_all();
  /// See CheckpointStore::memory().
  const at::Tensor& memory() const { return store_.memory(); }

 private:
  /// @return whether best/ has the model that the newest checkpoint remembers
  bool remove_outdated(const Snapshots& checkpoints);
  void export_best() const;
  void remove_export() const;

  Ranks ranks_;
  const Model& model_;
  BestExport export_;
  CheckpointStore store_;
};

}  // namespace tw::train
