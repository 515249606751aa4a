// SPDX-License-Identifier: Apache-2.0
// The computations of a pipeline's devices, in order. Value types; an executor adds only the messages.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tw::pipeline {

/// One computation of one stage on one micro-batch. Ref: the vocabulary of torch.distributed.pipelining.
struct Action {
  enum class Kind {
    forward,          ///< uses the previous stage's activations, computes those for the next stage
    backward,         ///< uses cotangents from the next stage, computes those for the previous stage and the gradients of this stage's parameters
    backward_input,   ///< the half of a backward pass that computes the cotangents for the previous stage
    backward_weight,  ///< the other half, at any later time: computes the gradients of this stage's parameters
  };
  Kind kind = Kind::forward;
  int stage = 0;
  int micro_batch = 0;

  bool is_forward() const noexcept { return kind == Kind::forward; }
  /// Whether the action computes the cotangents for the previous stage.
  bool makes_cotangents() const noexcept { return kind == Kind::backward || kind == Kind::backward_input; }
  /// Whether the stage holds no data of the micro-batch after the action.
  bool frees() const noexcept { return kind == Kind::backward || kind == Kind::backward_weight; }
  bool operator==(const Action&) const = default;
};

/// The action lists of a pipeline. Stages and micro-batches are numbered from 0. A device may run several stages.
struct Schedule {
  int stages = 0;
  int micro_batches = 0;
  std::vector<std::vector<Action>> devices;  ///< actions of each device, in order

  /// Whether any backward pass is split into two halves.
  bool has_halves() const noexcept;
  /// The device of each stage; -1 for a stage without actions. All actions must be of stages that exist.
  std::vector<int> device_of_stages() const;
  bool operator==(const Schedule&) const = default;
};

/// All forward passes, then all backward passes. A stage holds the activations of all micro-batches at once. Ref: Huang et al. 2019, arXiv
/// 1811.06965.
/// @throws ContractError for fewer than one stage or micro-batch. The other schedules throw it, too
Schedule gpipe(int stages, int micro_batches);
/// Runs backward passes as early as possible: stage i begins with `stages` - 1 - i forward passes, and then alternates forward and backward passes.
/// Stage i holds activations of at most min(micro_batches, stages - i) micro-batches. With equal stages and instant transfers, the schedule takes the
/// same time as gpipe(). Ref: Narayanan et al. 2019, PipeDream-flush; arXiv 2104.04473.
Schedule one_forward_one_backward(int stages, int micro_batches);
/// Like one_forward_one_backward(), but with backward passes in two halves. Stage i delays each weights' half by i micro-batches: the half then runs
/// when the stage would otherwise wait for cotangents. With equal stages, instant transfers, and micro_batches >= stages, each device is idle for
///   (stages - 1) * max(F, F + B - 2 * W),
/// where a forward pass takes F, a whole backward pass B, and its weights' half W. A stage holds data of a micro-batch until the weights' half has
/// run: at most min(micro_batches, stages) micro-batches at a time, like the first stage of one_forward_one_backward().
/// Ref: Qi et al. 2023 (ZB-H1), arXiv 2401.10241.
Schedule zero_bubble_h1(int stages, int micro_batches);

/// 1F1B with several stages on each device: stage i runs on device i % devices, so a micro-batch passes all devices `stages_per_device` times. Device
/// d holds at most 2 * (devices - 1 - d) + (stages_per_device - 1) * devices + 1 activations of one stage and micro-batch at a time. With equal
/// stages, instant transfers, and a multiple of `devices` micro-batches, each device is idle for (devices - 1) * (F + B), where F and B are the times
/// of one stage: `stages_per_device` times less than with one large stage on each device. For other numbers of micro-batches, list_schedule() finds
/// an order. Ref: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.
Schedule interleaved(int devices, int stages_per_device, int micro_batches);
/// Two stages on each device, i and 2 * devices - 1 - i, and backward passes in halves. The first and the last stage are on device 0. A device holds
/// data of at most 2 * devices stages and micro-batches at a time, as much as the first device of one_forward_one_backward() with stages of twice the
/// size. If all passes (forward, inputs' half, weights' half) take F, each device is idle for at least (devices - 1) * F: the last one waits so long
/// for its first input. With instant transfers, up to 16 devices and at least 2 * devices - 1 micro-batches, it is at most 1.25 times that. From
/// list_schedule(). Ref: Qi et al. 2024 (ZB-V), arXiv 2405.15362.
Schedule zero_bubble_v(int devices, int micro_batches);

enum class ScheduleKind { gpipe, one_forward_one_backward, zero_bubble_h1, interleaved, zero_bubble_v };
/// The number of stages on each device: 1 or, for `interleaved` and `zero_bubble_v`, 2.
int stages_per_device(ScheduleKind kind) noexcept;
/// The device of each stage in the schedules of that kind.
std::vector<int> device_of_stages(ScheduleKind kind, int devices);
/// The schedule of that kind, with stages_per_device() stages on each device.
Schedule make_schedule(ScheduleKind kind, int devices, int micro_batches);
/// "gpipe", "1f1b", "zb-h1", "interleaved", "zb-v".
const char* name_of(ScheduleKind kind) noexcept;
const std::vector<std::pair<std::string, ScheduleKind>>& schedule_names();

/// One line per device, such as "0F0 0F1 0B0 0I1 0W1". An action is its stage, a letter and its micro-batch. F is a forward pass,
/// B a backward pass, I and W are the inputs' and the weights' half of a backward pass.
std::string to_text(const Schedule& schedule);
/// The inverse of to_text(). Schedule::stages is the largest stage that occurs, plus 1; likewise for micro-batches. Ignores empty lines and comments
/// that begin with #. @throws Error naming the line and the invalid text; also for a text without actions
Schedule schedule_from_text(std::string_view text);

}  // namespace tw::pipeline
