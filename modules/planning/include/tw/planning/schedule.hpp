// SPDX-License-Identifier: Apache-2.0
// What the devices of a pipeline compute, and in which order. Values: whoever executes them adds nothing but messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tw::pipeline {

/// One computation of one stage on one micro-batch. Ref: the vocabulary of torch.distributed.pipelining.
struct Action {
  enum class Kind {
    forward,   ///< uses the activations of the stage before, makes those for the next stage
    backward,  ///< uses their cotangents from the next stage, makes those for the stage before, and this stage's gradients
  };
  Kind kind = Kind::forward;
  int stage = 0;
  int micro_batch = 0;

  bool is_forward() const noexcept { return kind == Kind::forward; }
  bool operator==(const Action&) const = default;
};

/// Stages 0 to `stages` - 1 on as many devices or fewer; micro-batches 0 to `micro_batches` - 1.
struct Schedule {
  int stages = 0;
  int micro_batches = 0;
  std::vector<std::vector<Action>> devices;  ///< each device's actions, in its order

  bool operator==(const Schedule&) const = default;
};

/// All forward passes, then all backward passes. A stage holds the activations of all micro-batches at once. Ref: Huang et al. 2019, arXiv
/// 1811.06965.
/// @throws ContractError for fewer than one stage or micro-batch, as the other schedules
Schedule gpipe(int stages, int micro_batches);
/// Backward passes as early as they can be: stage i begins with `stages` - 1 - i forward passes, and then alternates. The same time as gpipe(), and
/// activations of at most min(micro_batches, stages - i) micro-batches. Ref: Narayanan et al. 2019, PipeDream-flush; arXiv 2104.04473.
Schedule one_forward_one_backward(int stages, int micro_batches);

/// A line for each device, such as "0F0 0F1 0B0 0B1": stage, F or B, micro-batch.
std::string to_text(const Schedule& schedule);
/// The inverse of to_text(); stages and micro-batches are those that occur. Empty lines and what follows a # are left out.
/// @throws Error naming the line and the text in question
Schedule schedule_from_text(std::string_view text);

}  // namespace tw::pipeline
