// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>

namespace tw::train {

/// The learning rate schedule: a factor on the optimizer's initial rate. Pure.
struct LearningRateOptions {
  enum class Decay { constant, step, cosine };
  Decay decay = Decay::constant;
  int64_t warm_up_steps = 0;  ///< number of updates in which the rate rises linearly to its full value
  int64_t step_epochs = 1;    ///< for `step`: epochs between two multiplications of the rate by step_factor
  double step_factor = 0.1;
  double final_factor = 0;  ///< for `cosine`: factor of the rate at the end of the run
  int64_t base_batch = 0;   ///< the optimizer's rate is for this global batch; it is multiplied by (actual global batch / base_batch). 0: no scaling

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LearningRateOptions& options, OptionVisitor& visitor);

/// The sizes of a run that a schedule uses. A step is an update.
struct RunLength {
  int64_t steps_per_epoch = 1;
  int64_t epochs = 1;
  int64_t global_batch = 1;
};

/// The factor of the learning rate in update `step`, counted from 0. The linear scaling rule with warm-up: Goyal et al. 2017. Cosine: Loshchilov &
/// Hutter 2017.
double learning_rate_factor(const LearningRateOptions& options, const RunLength& length, int64_t step);

}  // namespace tw::train
