// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/planner.hpp>

#include <algorithm>
#include <ranges>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>

#include "coarsening.hpp"
#include "infeasible.hpp"
#include "plan_search.hpp"

namespace tw::pipeline {
namespace {

/// The shortest step time of the best plans of all schedules.
double shortest_step_s(const PlanResult& result) { return std::ranges::min(result.by_schedule | std::views::values); }

Relaxations relaxations(const BlockCostTable& costs, const Cluster& cluster, PlanOptions options, const std::vector<SearchSetting>& settings,
                        const PlanResult& found, DefaultSchedules& schedules) {
  constexpr double coarse_gap = 0.02;
  options.gap = std::max(options.gap, coarse_gap);
  const auto with = [&](auto change) {
    Cluster relaxed = cluster;
    change(relaxed);
    double shortest = shortest_step_s(found);
    for (const SimulatedPlan& each : search_plans(costs, relaxed, options, settings, schedules).plans)
      shortest = std::min(shortest, each.plan.step_s);
    return shortest;
  };
  Relaxations relaxed{.memory = with([](Cluster& c) { c.memory_bytes = infinity; }),
                      .links = with([](Cluster& c) { c.between_stages = {}; }),
                      .all_reduce = with([](Cluster& c) { c.within_stage = {}; })};
  const Plan& best = found.best();
  for (const StagePlan& stage : best.stages)
    relaxed.balance += stage.replicas * best.micro_batches * (stage.figures.forward_s + stage.figures.backward_s);
  relaxed.balance /= cluster.devices;
  return relaxed;
}

}  // namespace

void visit(PlanOptions& options, OptionVisitor& visitor) {
  visitor.field("batch", options.batch, at_least(1, any_count), {.meaning = "rows of a step, over all devices", .unit = "rows"});
  visitor.field("micro_batches", options.micro_batches, at_least(1),
                About{.meaning = "the only number of micro-batches to try; unset: powers of two, and divisors of the batch"});
  visitor.field("schedule", options.schedule, schedule_names(), About{.meaning = "the only schedule to try; unset: all of them"});
  visitor.field("max_stages", options.max_stages, at_least(1), About{.meaning = "largest number of devices in a row; unset: the number of devices"});
  visitor.field("stages", options.stages, at_least(1),
                About{.meaning = "exact number of devices in a row, without replicas; unset: any, with replicas"});
  visitor.group("parameters", options.parameters);
  visitor.field("recompute", options.recompute, recompute_names(), {.meaning = "kinds of recomputation that stages may use"});
  visitor.field("max_blocks", options.max_blocks, at_least(1), {.meaning = "largest number of blocks that operators are cut into before the search"});
  visitor.field("gap", options.gap, {.least = 0, .most = 1, .excludes_most = true},
                {.meaning = "relative optimality gap that the search may leave; 0: exact"});
  visitor.field("best_plans", options.best_plans, at_least(1), {.meaning = "largest number of plans to return"});
}

void PlanOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!micro_batches || *micro_batches <= batch, "a batch of ", batch, " rows cannot be divided into ", micro_batches.value_or(0),
             " micro-batches");
  TW_EXPECTS(!stages || !max_stages || *stages <= *max_stages, "there cannot be ", stages.value_or(0), " stages, because max_stages is ",
             max_stages.value_or(0));
  TW_EXPECTS(!recompute.empty(), "recompute must allow at least one kind");
}

std::vector<int> micro_batch_counts(const PlanOptions& options) {
  if (options.micro_batches) return {*options.micro_batches};
  std::set<int> counts;
  for (int m = 1; m <= std::min<int64_t>(options.batch, 4096); m *= 2) counts.insert(m);
  for (int m = 1; m <= std::min<int64_t>(options.batch, 64); ++m) {
    if (options.batch % m == 0) counts.insert(m);
  }
  return {counts.begin(), counts.end()};
}

PlanResult plan(const Profile& profile, const Cluster& cluster, const PlanOptions& options) {
  profile.validate();
  cluster.validate();
  options.validate();
  TW_EXPECTS(!options.stages || *options.stages <= cluster.devices, "there are ", cluster.devices, " devices for ", options.stages.value_or(0),
             " stages or devices in a row");
  const OperatorOrder order(profile);
  TW_EXPECTS(order.size() > 0, "the profile has no operator that uses the model's input");
  const double rows = std::max(1.0, static_cast<double>(options.batch) / cluster.devices);
  const BlockCostTable costs(order, coarsen(order, pinned_ranges(order, options.together), options.max_blocks, rows));
  DefaultSchedules schedules;
  const std::vector<SearchSetting> settings = settings_of(costs, cluster, options);
  SearchResult search = search_plans(costs, cluster, options, settings, schedules);
  if (search.plans.empty()) throw Error(why_infeasible(costs, settings, cluster, options));

  PlanResult result{.cluster = cluster, .options = options, .profile = profile};
  result.settings = static_cast<int>(settings.size());
  result.simulated = search.simulated;
  std::set<std::pair<int, std::vector<StageChoice>>> known;
  for (const SimulatedPlan& s : search.plans) {
    const auto of_kind = std::ranges::find(result.by_schedule, s.plan.schedule, &std::pair<ScheduleKind, double>::first);
    if (of_kind == result.by_schedule.end()) result.by_schedule.emplace_back(s.plan.schedule, s.plan.step_s);
  }
  for (SimulatedPlan& s : search.plans) {
    if (static_cast<int>(result.plans.size()) == options.best_plans) break;
    if (!known.insert({s.plan.micro_batches, s.candidate.stages}).second) continue;
    name_operators(s, costs);
    result.plans.push_back(std::move(s.plan));
  }
  result.relaxed = relaxations(costs, cluster, options, settings, result, schedules);
  return result;
}

}  // namespace tw::pipeline
