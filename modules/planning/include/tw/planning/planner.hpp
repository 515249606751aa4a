// SPDX-License-Identifier: Apache-2.0
// Finds stages, replicas, micro-batches, schedule and recomputation for a model on a cluster. Pure.
//
// Three phases. Atomic: operators that do not see the batch are copied to their users, operators that must stay together become one. Block: the
// others, in the profile's order, are cut into at most PlanOptions::max_blocks blocks of about equal weight where few bytes cross, in linear time.
// Stage: for each schedule and number of micro-batches m, over blocks, replicas and recomputation,
//
//   minimise sum of tau + max of ((m - 1) tau + a),   tau = forward + backward + transfers, a = what of the all-reduce backward does not hide
//   subject to each stage's memory at the number of micro-batches in flight that the schedule has there.
//
// With the maximum bounded by t, dynamic programming from the last stage to the first is exact:
//   F(s, b, d) = min over b', n of tau(b, b', n) + F(s - 1, b', d - n), over stages whose load is at most t;
// t goes down until no better plan can exist. The best plans' action lists are then simulated: that time decides.
// Ref: Tanaka et al. 2021, arXiv 2103.16063, the three phases; Zheng et al. 2022, arXiv 2201.12023, the bound t.
#pragma once
#include <optional>
#include <string>
#include <tw/planning/plan.hpp>
#include <vector>

namespace tw::pipeline {

struct PlanOptions {
  int64_t batch = 1;                          ///< rows of a step, over all devices
  std::optional<int> micro_batches = {};      ///< otherwise powers of two up to the batch, 4096 at most, and divisors of the batch up to 64
  std::optional<ScheduleKind> schedule = {};  ///< otherwise both
  std::optional<int> max_stages = {};         ///< otherwise the number of devices
  ParameterMemory parameters = {};
  std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};  ///< allowed
  /// Names of operators that must be in one stage, with all that lie between them in the profile's order.
  std::vector<std::vector<std::string>> together = {};
  int max_blocks = 128;
  double gap = 0.005;   ///< a plan this share worse than the best will do for the search over stages; 0: exact
  int best_plans = 16;  ///< this many are returned, at most

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(PlanOptions& options, OptionVisitor& visitor);

/// The numbers of micro-batches that `options` lets be tried.
std::vector<int> micro_batch_counts(const PlanOptions& options);

/// Step times of the best plan if a limit were gone, in seconds.
struct Relaxations {
  double memory = 0;      ///< devices of any size
  double links = 0;       ///< transfers between stages in no time
  double all_reduce = 0;  ///< gradients reduced in no time
  double balance = 0;     ///< all devices always busy with the best plan's work: the bound by work alone
};

struct PlanResult {
  std::vector<Plan> plans = {};  ///< by predicted step time, different in more than figures; the first one is it
  Cluster cluster = {};
  PlanOptions options = {};
  Profile profile = {};
  Relaxations relaxed = {};
  int settings = 0;  ///< schedules x numbers of micro-batches that were searched
  int simulated = 0;

  const Plan& best() const { return plans.front(); }
  /// One stage: the model fits one device, and data parallelism is best.
  bool is_data_parallel() const { return plans.front().stages.size() == 1; }
};

/// The best plans. @throws ContractError for wrong arguments; Error when nothing fits: names the operator that does not, by how many bytes, and the
/// smallest number of devices that would do, if there is one.
PlanResult plan(const Profile& profile, const Cluster& cluster, const PlanOptions& options);

/// Stages with times and memory, a Gantt chart of the schedule, why this plan, what the next best costs, and which limit binds.
std::string explain(const PlanResult& result);

}  // namespace tw::pipeline
