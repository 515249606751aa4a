// SPDX-License-Identifier: Apache-2.0
// The computations of a pipeline's devices, in order. Value types; an executor adds only the messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tw::pipeline {

/// One computation of one stage on one micro-batch. Ref: the vocabulary of torch.distributed.pipelining.
struct Action {
  enum class Kind {
    forward,   ///< uses the previous stage's activations, makes those for the next stage
    backward,  ///< uses cotangents from the next stage, makes those for the previous stage and this stage's gradients
  };
  Kind kind = Kind::forward;
  int stage = 0;
  int micro_batch = 0;

  bool is_forward() const noexcept { return kind == Kind::forward; }
  bool operator==(const Action&) const = default;
};

/// The action lists of a pipeline. Numbers of stages and micro-batches begin at 0; there are at most `stages` devices.
struct Schedule {
  int stages = 0;
  int micro_batches = 0;
  std::vector<std::vector<Action>> devices;  ///< actions of each device, in order

  bool operator==(const Schedule&) const = default;
};

/// All forward passes, then all backward passes. A stage holds the activations of all micro-batches at once. Ref: Huang et al. 2019, arXiv
/// 1811.06965.
/// @throws ContractError for fewer than one stage or micro-batch; so do the other schedules
Schedule gpipe(int stages, int micro_batches);
/// Runs backward passes as early as possible: stage i begins with `stages` - 1 - i forward passes and then alternates. Takes the same time as
/// gpipe(), but stage i holds activations of at most min(micro_batches, stages - i) micro-batches. Ref: Narayanan et al. 2019, PipeDream-flush; arXiv
/// 2104.04473.
Schedule one_forward_one_backward(int stages, int micro_batches);

/// One line per device, such as "0F0 0F1 0B0 0B1": stage, F or B, micro-batch.
std::string to_text(const Schedule& schedule);
/// The inverse of to_text(); counts the stages and micro-batches that occur. Ignores empty lines and comments that begin with #.
/// @throws Error naming the line and the invalid text
Schedule schedule_from_text(std::string_view text);

}  // namespace tw::pipeline
