// SPDX-License-Identifier: Apache-2.0
// Finds stages, replicas, micro-batches, schedule and recomputation for a model on a cluster. Pure.
// Three phases. Atomic: operators without batch data are copied to their users, and operators that must stay together are merged. Block: the
// operators with batch data, in the profile's order, are cut into at most PlanOptions::max_blocks blocks of about equal weight, at places where few
// bytes cross, in linear time. Stage: for each schedule and number of micro-batches m, the search over blocks, replicas and recomputation solves
//
//   minimise (sum over stages of tau) + (maximum over stages of load)
//     load = m * (stages on a device) * interval - tau + exposed part of the all-reduce
//   F, B: forward and backward pass of a stage, W: weights' half of B, c: one transfer for each neighbour
//
//   | schedule | tau | interval |
//   |---|---|---|
//   | 1f1b | F + B + c | F + B + c |
//   | gpipe | F + B + c | max(F, transfer) + max(B, transfer); in `load`, also in place of tau |
//   | zb-h1 | max(F, F + B - 2 W) + c | max(F + B, F + B - W + c) |
//   | interleaved | (F + B) / 2 + c | F + B + c |
//   | zb-v | max(F, F + B - 2 W) / 2 + c | max(F + B, F + B - W + c) |
//
//   subject to: each stage fits in memory, with the number of micro-batches that the schedule has in flight there. If a device has several stages,
//   each gets an equal share of its memory. All stages have equally many replicas if a device has several stages, or if there are more than 32
//   devices. Then the number of devices in a row (of a pipeline) is a power of two or three times one, divides the number of devices, or is the
//   smallest or the largest with a block for each stage. The number of replicas is the largest that leaves each fewer rows, or a power of two up to
//   half of that.
//
// The all-reduce is that of all stages of a device, which are assumed to be equal; the device's last action hides it, in zb-h1 and zb-v a W.
// The last three are estimates, which move towards one pass of a micro-batch alone where there are fewer micro-batches than devices in a row. With
// several stages on a device, tau also has a tenth of the device's time, 2 m (F + B), divided by the number of stages, times the ratio of F + B to
// that of even stages: even stages are preferred. If t bounds all loads, dynamic programming from the last stage to the first is exact. F(s, b, d) is
// the least sum of tau over s stages for the blocks from b on, on at most d devices:
//   F(s, b, d) = min over b', n of tau(b, b', n) + F(s - 1, b', d - n), over first stages of n replicas whose load is at most t.
// t decreases until no better plan can exist. Then the best plans of each schedule are simulated, and the simulated time decides.
// Ref: Tanaka et al. 2021, arXiv 2103.16063 (the three phases); Zheng et al. 2022, arXiv 2201.12023 (the bound t).
#pragma once
#include <optional>
#include <string>
#include <tw/planning/plan.hpp>
#include <vector>

namespace tw::pipeline {

struct PlanOptions {
  int64_t batch = 1;                      ///< rows per step, over all devices
  std::optional<int> micro_batches = {};  ///< unset: tries powers of two up to min(batch, 4096), and divisors of the batch up to 64
  /// Unset: tries all kinds. zb-h1, interleaved and zb-v only with at least two devices in a row, and not where bubbles are short: with more than 64
  /// micro-batches that are also more than 16 times the devices in a row, or 64 times for a given number of micro-batches. A given kind is tried with
  /// all numbers.
  std::optional<ScheduleKind> schedule = {};
  /// Largest number of stages, or of devices in a row for a schedule with several stages on each; unset: the number of devices.
  std::optional<int> max_stages = {};
  std::optional<int> stages = {};  ///< exactly this many stages, or devices in a row, of one replica each; unset: any number, with replicas
  ParameterMemory parameters = {};
  std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};  ///< allowed in stages
  /// Groups of operator names. A group must be in one stage, together with all operators between its first and last one in the profile's order.
  std::vector<std::vector<std::string>> together = {};
  int max_blocks = 128;
  double gap = 0.005;   ///< relative optimality gap that the search over stages may leave; 0: exact
  int best_plans = 16;  ///< maximum number of plans to return

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(PlanOptions& options, OptionVisitor& visitor);

/// The numbers of micro-batches to try.
std::vector<int> micro_batch_counts(const PlanOptions& options);

/// For each limit, the shortest step time in seconds without that limit.
struct Relaxations {
  double memory = 0;      ///< with unlimited device memory
  double links = 0;       ///< with instant transfers between stages
  double all_reduce = 0;  ///< with instant all-reduces
  double balance = 0;     ///< with all devices always busy: a lower bound, from the work of the best plan
};

struct PlanResult {
  /// The best plan first: of those whose predicted step is at most 2 % longer than the shortest, one with the simplest schedule, in the order 1f1b,
  /// gpipe, zb-h1, interleaved, zb-v. The others follow by predicted step time. No two have the same stages and number of micro-batches.
  std::vector<Plan> plans = {};
  bool best_is_given = false;  ///< whether the best plan was given in place of the planner's, which then comes second, if it is known
  Cluster cluster = {};
  PlanOptions options = {};
  Profile profile = {};
  Relaxations relaxed = {};
  std::vector<std::pair<ScheduleKind, double>> by_schedule = {};  ///< for each schedule with simulated plans, the shortest step time in seconds
  int settings = 0;   ///< number of searches. Each is for one schedule and number of micro-batches. With one stage on each of up to 32
                      ///< devices, it is for any stages and replicas, in zb-h1 for a range of numbers of stages; otherwise for one number of each
  int simulated = 0;  ///< number of simulated plans, of which the best are in `plans`

  const Plan& best() const& { return plans.front(); }
  Plan best() && { return std::move(plans.front()); }
  /// Whether the best plan has one device in a row. Unless it was given, the model then fits one device, and no pipeline is more than 2 % faster.
  bool is_data_parallel() const { return plans.front().stages.size() == static_cast<size_t>(stages_per_device(plans.front().schedule)); }
};

/// Returns the best plans. @throws ContractError for invalid arguments
/// @throws Error if no plan fits. Where known, it names operators that do not fit, the missing bytes, and the smallest sufficient number of devices.
/// Also if the model cannot be cut into PlanOptions::stages stages
PlanResult plan(const Profile& profile, const Cluster& cluster, const PlanOptions& options);

/// Explains the best plan: stages with times and memory, a Gantt chart, the reasons for it, the cost of the next best, and the limiting resource.
std::string explain(const PlanResult& result);

}  // namespace tw::pipeline
