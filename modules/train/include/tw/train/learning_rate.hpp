// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>

namespace tw::train {

/// The learning rate schedule. In an update, the rate of a parameter group is its base rate times learning_rate_factor(). The base rate is the one
/// that the optimizer has initially, unless a hook changes it.
struct LearningRateOptions {
  enum class Decay { constant, step, cosine };
  Decay decay = Decay::constant;
  /// Number of updates in which the rate rises linearly: from 1/warm_up_steps of its full value in the first to the full value in the last.
  int64_t warm_up_steps = 0;
  int64_t step_epochs = 1;   ///< only with Decay::step: epochs between two multiplications of the rate by `step_factor`
  double step_factor = 0.1;  ///< only with Decay::step
  double final_factor = 0;   ///< only with Decay::cosine: share of the full rate to which the rate falls; the update after the last one would have it
  /// Global batch for which the optimizer's rate was chosen. The schedule multiplies the rate by (actual global batch / base_batch). 0: no scaling.
  int64_t base_batch = 0;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LearningRateOptions& options, OptionVisitor& visitor);

/// The length of a run in updates, and its global batch. A schedule depends on them.
struct RunLength {
  int64_t steps_per_epoch = 1;
  int64_t epochs = 1;
  int64_t global_batch = 1;
};

/// The factor of the learning rate in update `step`: the product of the scaling by the global batch, the warm-up, and the decay. Updates count from 0
/// at the beginning of the run. Step decay counts epochs from there, too; cosine decay begins after the warm-up. Pure.
/// Ref: Goyal et al. 2017 for the linear scaling rule and for warm-up, which begins there at the unscaled rate; Loshchilov & Hutter 2017 for the
/// cosine, here without restarts.
double learning_rate_factor(const LearningRateOptions& options, const RunLength& length, int64_t step);

}  // namespace tw::train
