// SPDX-License-Identifier: Apache-2.0
// How a model is cut into stages, and what that costs. A value, which a person can write too.
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

enum class ScheduleKind { gpipe, one_forward_one_backward };

/// Bytes of one device.
struct StageMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;    ///< of all micro-batches in flight; without recomputation also what the backward pass of one needs at a time besides
  double recomputation = 0;  ///< what one backward pass computes again and needs besides; selective: that micro-batch's activations, too
  double communication = 0;  ///< two buffers for what comes in and goes out, in either direction, and replicas' buckets of all gradients

  double total() const noexcept { return weights + gradients + optimizer + activations + recomputation + communication; }
};

/// One micro-batch on one replica, but for the all-reduce: once a batch.
struct StageFigures {
  double forward_s = 0;
  double backward_s = 0;    ///< with recomputation
  double all_reduce_s = 0;  ///< of gradients among replicas, and with stages that share parameters
  double transfer_s = 0;    ///< of activations to the next stage, or of their cotangents back
  double exposed_s = 0;     ///< of the all-reduce: by how much it makes the batch longer
  int in_flight = 0;        ///< micro-batches whose activations it holds, at most
  StageMemory memory = {};
};

struct StagePlan {
  std::vector<int> operators = {};  ///< as the profile counts them, ascending
  int replicas = 1;                 ///< each takes its share of the rows of every micro-batch
  Recompute recompute = Recompute::none;
  std::vector<int> segments = {};  ///< for selective recomputation: those of the operators that begin a segment; the first one always does
  StageFigures figures = {};       ///< predicted

  /// Whether `segments` holds operator `op` of this stage, with selective recomputation; it may omit the first operator.
  bool begins_segment(int op) const;
};

struct Plan {
  std::string hash = {};  ///< of the graph that it is for
  int64_t batch = 0;
  int micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  std::vector<StagePlan> stages = {};
  double step_s = 0;  ///< predicted: forward and backward passes of a batch, and what of the all-reduces they do not hide
  double bubble = 0;  ///< predicted: the share of the schedule in which a device computes nothing, the mean of all devices

  int devices() const;  ///< that it uses
  /// Of the largest micro-batch.
  int64_t rows() const { return divide_up(batch, micro_batches); }
};

/// The action list of a plan, stage i on device i, whatever its replicas.
Schedule schedule_of(const Plan& plan);

/// What is wrong with a plan of `profile`'s model for this many devices; empty: nothing. That the hashes agree, every operator is in one stage (one
/// without batch data in every stage that uses it), inputs lie in the same or an earlier stage, and replicas fit devices and rows.
std::vector<std::string> problems_of(const Plan& plan, const Profile& profile, int devices);

/// `plan` with its figures: the action list simulated, then the all-reduce of each stage, which begins with its last backward pass, or
/// when that ends: Cluster::overlapped_all_reduce.
/// A micro-batch of R rows on n replicas costs what ceil(R / n) rows cost. @throws ContractError with the first of problems_of()
Plan predicted(Plan plan, const Profile& profile, const Cluster& cluster, const ParameterMemory& parameters = {});

/// The action list on clocks, without all-reduces, of a plan that has its figures.
Simulation simulation_of(const Plan& plan);
/// Stages with times and memory, and a Gantt chart of the schedule, of a plan that has its figures.
std::string describe(const Plan& plan, const Profile& profile);

/// For people: operators by name, or "first .. last" for all from one to another in the profile's order. Figures are written, but not read.
std::string to_json(const Plan& plan, const Profile& profile);
/// Without figures. @throws Error naming the field, or with the first of problems_of()
Plan plan_from_json(std::string_view text, const Profile& profile, int devices);

/// "none", "selective", "full"; "gpipe", "1f1b".
const char* name_of(Recompute recompute) noexcept;
const char* name_of(ScheduleKind schedule) noexcept;
const std::vector<std::pair<std::string, Recompute>>& recompute_names();
const std::vector<std::pair<std::string, ScheduleKind>>& schedule_names();
/// Operators by name as to_json() has them.
std::vector<std::string> name_ranges(const std::vector<int>& operators, const Profile& profile);

}  // namespace tw::pipeline
