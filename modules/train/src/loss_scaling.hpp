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

/// This rank's loss scaler, if the run has one. Ranks that meet in every update have equal scalers; others have independent ones.
class LossScaling {
 public:
  explicit LossScaling(const PrecisionOptions& options);

  /// Factor for losses; 1 without a scaler.
  double scale() const noexcept { return scaler_ ? scaler_->scale() : 1; }
  /// Reports an update's outcome. An update skipped for a reason other than overflow does not affect the scale.
  void update(const Outcome& outcome) noexcept;
  /// The largest number of overflows on any rank. Collective.
  int64_t max_overflows(const Communicator& comm) const;

  /// State for checkpoints.
  struct State {
    double scale = 1;
    double good_updates = 0;
    double overflows = 0;
  };
  std::optional<State> state() const;
  /// Restores this rank's state. If the number of ranks differs, or not `same_layout`, restores that of the smallest scale: ranks that sum scaled
  /// gradients need equal scales. No-op without a scaler or saved state.
  void restore(const Progress& progress, int rank, int ranks, bool same_layout);
  /// The same for runs saved outside checkpoints; all ranks get rank 0's state.
  std::optional<NamedShard> shard() const;
  void take_shard(const std::vector<NamedShard>& shards);

 private:
  void restore(const State& state) noexcept;

  std::optional<LossScaler> scaler_;
  int64_t overflows_ = 0;
};

}  // namespace tw::train
