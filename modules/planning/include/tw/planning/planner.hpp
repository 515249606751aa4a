// SPDX-License-Identifier: Apache-2.0
// Finds stages, replicas, micro-batches, schedule and recomputation for a model on a cluster. Pure.
// Three phases. Atomic: operators without batch data are copied to their users, and operators that must stay together are merged. Block: the
// operators with batch data, in the profile's order, are cut into at most PlanOptions::max_blocks blocks of about equal weight, at places where few
// bytes cross, in linear time. Stage: for each schedule and number of micro-batches m, the search over blocks, replicas and recomputation solves
//
//   minimise (sum over stages of tau) + (maximum over stages of load)
//     tau:  what the stage adds to the time in which the pipeline fills and drains
//     load: what the slowest device adds to that: m * (stages on a device) * interval - tau + exposed part of the all-reduce
//   F, B: forward and backward pass of a stage, W: the part of B for gradients of parameters, c: one transfer for each neighbour,
//   depth: number of devices that a micro-batch passes, or half of the stages if each device has two
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
//   devices. The depths that are then tried: the smallest that is allowed, the largest with a block for each stage, divisors of the number of
//   devices, powers of two, and three times these. The numbers of replicas: the largest that is useful, and powers of two up to half of it. A number
//   is useful if with one replica less, each would have more rows; with a sharded optimizer, every number is. With PlanOptions::stages, it is 1.
//
// The exposed part of the all-reduce: the all-reduces of all stages of the device, which are assumed to be equal, less the device's last action (B;
// in zb-h1 and zb-v W) if Cluster::overlapped_all_reduce is set. The taus of zb-h1, interleaved and zb-v are estimates. If m is smaller than the
// depth, they are interpolated between that of the table and one pass of a micro-batch alone: F + B + c, in
// zb-h1 and zb-v F + B - W + c. With two stages on a device, even stages are preferred: tau also has 0.1 * m * (F + B) * 2 / stages * (F + B) / E,
// where E is F + B of each stage if all are equal. If t bounds all loads, dynamic programming from the last stage to the first is exact. S(s, b, d)
// is the least sum of tau over s stages for the blocks from b on, on at most d devices:
//   S(s, b, d) = min over b', n of tau(b, b', n) + S(s - 1, b', d - n), over first stages of n replicas whose load is at most t.
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
  /// Only this kind. Unset: tries all kinds, but zb-h1, interleaved and zb-v only with a depth of at least 2, and with m <= max(64, 16 * depth)
  /// micro-batches, or max(64, 64 * depth) if `micro_batches` is set: with more, bubbles are short. Depth: see above.
  std::optional<ScheduleKind> schedule = {};
  std::optional<int> max_stages = {};  ///< largest depth; unset: the number of devices
  /// Exactly this depth, with one replica of each stage; interleaved and zb-v then have twice as many stages. Unset: any depth, with replicas.
  std::optional<int> stages = {};
  ParameterMemory parameters = {};
  std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};  ///< allowed in stages
  /// Groups of operator names. A group must be in one stage, together with all operators between its first and last one in the profile's order.
  std::vector<std::vector<std::string>> together = {};
  int max_blocks = 128;  ///< largest number of blocks, see above
  double gap = 0.005;    ///< relative optimality gap that the search over stages may leave; 0: exact
  int best_plans = 16;   ///< maximum number of plans to return

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
  /// gpipe, zb-h1, interleaved, zb-v. The others follow by predicted step time; with PlanOptions::stages and one micro-batch, of almost equal ones
  /// the most even first. No two have the same stages and number of micro-batches.
  std::vector<Plan> plans = {};
  /// Whether the first plan is one that was given to ModelPlan::use(), and not the planner's. The planner's best follows, if there is one.
  bool best_is_given = false;
  Cluster cluster = {};
  PlanOptions options = {};
  Profile profile = {};
  Relaxations relaxed = {};
  std::vector<std::pair<ScheduleKind, double>> by_schedule = {};  ///< for each schedule with simulated plans, the shortest step time in seconds
  /// Number of settings that the search considered; hopeless ones were skipped. A setting is one schedule and number of micro-batches. With several
  /// stages on a device, more than 32 devices, or PlanOptions::stages, it is also one depth and number of replicas; in zb-h1, a range of depths.
  int settings = 0;
  int simulated = 0;  ///< number of simulated plans, of which the best are in `plans`

  const Plan& best() const& { return plans.front(); }
  Plan best() && { return std::move(plans.front()); }
  /// Whether the best plan's depth is 1: each replica of the model is on one device. Unless the plan was given, the model then fits one device, and
  /// no pipeline that the options allow is more than 2 % faster.
  bool is_data_parallel() const { return plans.front().stages.size() == static_cast<size_t>(stages_per_device(plans.front().schedule)); }
};

/// Returns the best plans. Local and deterministic. Takes seconds for a thousand devices; more micro-batches, operators and kinds of schedules take
/// longer.
/// @throws ContractError for invalid arguments, such as a name in PlanOptions::together that no operator with batch data has
/// @throws Error if the model cannot be cut into PlanOptions::stages stages, or if no plan fits. Where known, it names operators that do not fit, the
/// missing bytes, and the smallest sufficient number of devices.
PlanResult plan(const Profile& profile, const Cluster& cluster, const PlanOptions& options);

/// Explains the best plan: stages with times and memory, a Gantt chart (of up to 4000 passes), the reasons for it, the cost of the next best, and the
/// limiting resource. Of a plan that was given, it has no reasons.
std::string explain(const PlanResult& result);

}  // namespace tw::pipeline
