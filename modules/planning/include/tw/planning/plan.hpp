// SPDX-License-Identifier: Apache-2.0
// A partition of a model into stages, and its costs. A value type; plans can also be written by hand. A device of a plan's schedule stands for one or
// several real devices, its replicas, which compute the same stages on different rows.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tw/base/numbers.hpp>
#include <tw/planning/cluster.hpp>
#include <tw/planning/profile.hpp>
#include <tw/planning/recompute.hpp>
#include <tw/planning/schedule.hpp>
#include <tw/planning/simulation.hpp>
#include <vector>

namespace tw::pipeline {

/// Memory of a stage on one replica, in bytes. If a device has several stages, their memory adds up; a parameter that several of them share is
/// counted in the first of these only.
struct StageMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  /// Activations of all micro-batches in flight, in zb-h1 and zb-v also what waits for the gradients of parameters; without recomputation also the
  /// workspace of one backward pass
  double activations = 0;
  double recomputation = 0;  ///< recomputed activations and workspace of one backward pass; selective: also the kept inputs of its segments
  double communication = 0;  ///< buffers for input and output, each for activations and for cotangents; with several replicas also gradient buckets

  double total() const noexcept { return weights + gradients + optimizer + activations + recomputation + communication; }
};

/// Predictions for one replica. Times are in seconds per micro-batch; those of the all-reduce are per batch.
struct StageFigures {
  double forward_s = 0;
  double backward_s = 0;    ///< including recomputation
  double weights_s = 0;     ///< part of backward_s for gradients of parameters, which zb-h1 and zb-v may compute later
  double all_reduce_s = 0;  ///< all-reduce of gradients among replicas, and with other devices that have the same parameters
  double transfer_s = 0;    ///< transfer of activations to the next stage, or of their cotangents back
  double exposed_s = 0;     ///< part of the device's all-reduces that extends the batch's time; 0 for all but its first stage
  int in_flight = 0;        ///< maximum number of micro-batches whose activations the replica holds at a time
  StageMemory memory = {};
};

struct StagePlan {
  std::vector<int> operators = {};  ///< indices in the profile, ascending
  /// Number of replicas; each processes its share of the rows of every micro-batch. Stages on the same device have equal numbers.
  int replicas = 1;
  Recompute recompute = Recompute::none;
  std::vector<int> segments = {};  ///< selective recomputation: operators that begin a segment; the first operator always does, also if omitted
  StageFigures figures = {};       ///< predicted

  /// Whether the stage recomputes selectively and `segments` contains operator `op`.
  bool begins_segment(int op) const;
};

struct Plan {
  std::string hash = {};  ///< hash of the graph that the plan is for
  int64_t batch = 0;
  int micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  std::vector<StagePlan> stages = {};  ///< a multiple of stages_per_device(schedule)
  double step_s = 0;                   ///< predicted seconds of a batch: forward and backward passes, and the exposed part of all-reduces
  double bubble = 0;                   ///< predicted share of the schedule's duration in which a device is idle, mean over all devices

  /// Number of real devices: the sum of the replicas of the schedule's devices, or the largest int if that is smaller.
  int devices() const;
  /// Rows of the largest micro-batch.
  int64_t rows() const { return divide_up(batch, micro_batches); }
};

/// The times of the stages in a plan's figures.
std::vector<PassTimes> pass_times(const Plan& plan);
/// The schedule of a plan: what schedule_for() makes of its kind, sizes and pass_times(). Plans with equal times have the same one, so all ranks get
/// it from the same figures. Without figures, it is that of make_schedule(). Each of its devices stands for all replicas of the stages on it.
Schedule schedule_of(const Plan& plan);
/// The device of each stage in that schedule.
std::vector<int> device_of_stages(const Plan& plan);
/// Bytes that a replica needs, by device of the schedule: the sum of its stages' memory, with each parameter once. That is an upper bound if a device
/// has several stages: their maxima need not come at the same time, and consecutive stages on one device exchange no messages. @param plan with
/// figures, see predicted()
std::vector<double> device_memory(const Plan& plan);

/// Returns the problems of `plan` for the model of `profile` on this many devices; empty if there are none. Checks the profile and the plan's
/// numbers, that the hashes agree, and that there are enough devices and rows for the replicas. An operator with batch data, see Profile, must be in
/// one stage, and its inputs in the same or an earlier stage. An operator without batch data must be in every stage that uses it.
std::vector<std::string> problems_of(const Plan& plan, const Profile& profile, int devices);

/// Returns `plan` with its figures. Simulates the schedule of the result, see schedule_of(), and then the all-reduces of each device, which begin at
/// the start or at the end of the device's last action, see Cluster::overlapped_all_reduce. A micro-batch of R rows on n replicas costs the same as
/// ceil(R / n) rows on one. @throws ContractError with the first problem if problems_of() finds any
Plan predicted(Plan plan, const Profile& profile, const Cluster& cluster, const ParameterMemory& parameters = {});

/// Simulates the schedule of a plan with figures, see predicted(); without all-reduces.
Simulation simulation_of(const Plan& plan);
/// Describes a plan with figures, see predicted(): stages with times and memory, and a Gantt chart of the schedule.
std::string describe(const Plan& plan, const Profile& profile);

/// Readable JSON. Names operators singly or as ranges "first .. last" in the profile's order. The objects `predicted` have the times and the total
/// memory.
std::string to_json(const Plan& plan, const Profile& profile);
/// Reads what to_json() writes. Of the predictions, it reads only the times of passes, which may be missing; the other figures are 0, and predicted()
/// computes them.
/// @throws Error naming a wrong field, or with the first problem if problems_of() finds any
Plan plan_from_json(std::string_view text, const Profile& profile, int devices);

/// "none", "selective", "full".
const char* name_of(Recompute recompute) noexcept;
const std::vector<std::pair<std::string, Recompute>>& recompute_names();
/// Operators as names and ranges, as in to_json().
std::vector<std::string> name_ranges(const std::vector<int>& operators, const Profile& profile);

}  // namespace tw::pipeline
