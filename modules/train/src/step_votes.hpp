// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/gradient_sums.hpp>

#include "strategy.hpp"

namespace tw::train {

/// Exchanges signals along with the gradients that ranks sum in every step.
class StepVotes {
 public:
  /// @param sums must reduce on this rank @param others communicator with the ranks that do not sum with this one; null: there are none. Borrowed
  StepVotes(GradientSums& sums, const Communicator* others) : sums_(sums), others_(others) {}

  void raise(Signal word) { sums_.parallel()->reducer().vote(static_cast<int>(word)); }
  /// Call after each sum.
  void collect();
  /// The signals received since the last call, the same on all ranks. Collective if votes do not reach all ranks.
  Outcome outcome(double loss_scale);

 private:
  GradientSums& sums_;
  const Communicator* others_;
  Outcome collected_;
};

}  // namespace tw::train
