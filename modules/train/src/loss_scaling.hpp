// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/gradients/loss_scaler.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/train/precision.hpp>
#include <vector>

#include "progress.hpp"

namespace tw::train {

struct Outcome;

/// The loss scaler of this rank, where a run has one. Ranks that meet in every update have the same one; others each their own.
class LossScaling {
 public:
  explicit LossScaling(const PrecisionOptions& options);

  /// By which losses are multiplied; 1 without scaler.
  double scale() const noexcept { return scaler_ ? scaler_->scale() : 1; }
  /// What became of an update. One that was left out for another reason than an overflow says nothing of the scale.
  void update(const Outcome& outcome) noexcept;
  /// Of the rank that had most. Collective.
  int64_t most_overflows(const Communicator& comm) const;

  /// All that there is to save.
  struct State {
    double scale = 1;
    double good_updates = 0;
    double overflows = 0;
  };
  std::optional<State> state() const;
  /// Takes over what the rank had or, on another number of ranks, what the one with the smallest scale had. Nothing where there is nothing.
  void restore(const Progress& progress, int rank, int ranks);
  /// The same for whoever keeps a run elsewhere than in checkpoints; ranks have rank 0's then.
  std::optional<NamedShard> shard() const;
  void take_shard(const std::vector<NamedShard>& shards);

 private:
  void restore(const State& state) noexcept;

  std::optional<LossScaler> scaler_;
  int64_t overflows_ = 0;
};

}  // namespace tw::train
