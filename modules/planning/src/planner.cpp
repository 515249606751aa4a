// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/planner.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <tw/planning/schedule_check.hpp>

#include "coarsening.hpp"
#include "infeasible.hpp"
#include "plan_prediction.hpp"
#include "stage_search.hpp"

namespace tw::pipeline {
namespace {

/// For one stage on each device.
SearchSetting single_stages(SearchSetting setting, const Cluster& cluster, const PlanOptions& options) {
  setting.devices = cluster.devices;
  setting.max_stages = options.stages.value_or(options.max_stages.value_or(cluster.devices));
  if (options.stages) setting.min_stages = *options.stages;
  if (options.stages) setting.max_replicas = 1;
  return setting;
}

/// For several stages on each device: one setting for each number of devices in a row, which all have the same number of replicas.
std::vector<SearchSetting> several_stages(const SearchSetting& setting, int blocks, const Cluster& cluster, const PlanOptions& options) {
  std::vector<SearchSetting> settings;
  const int first = options.stages.value_or(1);
  const int last = std::min(cluster.devices, options.stages.value_or(options.max_stages.value_or(cluster.devices)));
  for (int row = first; row <= last; ++row) {
    if (row > first && row < last && cluster.devices % row != 0 && !std::has_single_bit(static_cast<unsigned>(row))) continue;
    if (!options.micro_batches && setting.micro_batches > std::max(64, 16 * row)) continue;  // the bubble is short, and the lists are long
    SearchSetting made = setting;
    made.min_stages = made.max_stages = row * stages_per_device(setting.schedule);
    if (made.max_stages > blocks && row > first) break;
    const int64_t most = std::min<int64_t>(cluster.devices / row, setting.rows);
    const int64_t useful = options.parameters.sharded_optimizer ? most : divide_up(setting.rows, divide_up(setting.rows, most));
    made.max_replicas = options.stages ? 1 : static_cast<int>(useful);  // more would have as many rows each
    made.min_replicas = made.max_replicas;
    made.devices = made.max_stages * made.max_replicas;
    const Schedule schedule = make_schedule(setting.schedule, row, setting.micro_batches);
    made.held = max_activations(schedule);
    made.waiting = std::ranges::max(max_waiting(schedule));
    settings.push_back(std::move(made));
  }
  return settings;
}

std::vector<SearchSetting> settings_of(int blocks, const Cluster& cluster, const PlanOptions& options) {
  std::vector<SearchSetting> settings;
  for (const int m : micro_batch_counts(options)) {
    const std::vector<ScheduleKind> tried{ScheduleKind::one_forward_one_backward, ScheduleKind::gpipe};
    for (const ScheduleKind schedule : options.schedule ? std::vector{*options.schedule} : tried) {
      SearchSetting setting{.schedule = schedule, .micro_batches = m, .rows = divide_up(options.batch, m)};
      if (options.stages && m == 1) setting.balance = 1e-3;
      if (stages_per_device(schedule) == 1) {
        settings.push_back(single_stages(setting, cluster, options));
      } else {
        for (SearchSetting& each : several_stages(setting, blocks, cluster, options)) settings.push_back(std::move(each));
      }
    }
  }
  return settings;
}

/// The share of each stage in a device. Stages on the same device are searched as if each had its own device, with an equal share of the memory.
Cluster share_of(Cluster cluster, ScheduleKind schedule) {
  cluster.memory_bytes /= stages_per_device(schedule);
  return cluster;
}

Plan plan_of(const Candidate& candidate, const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options) {
  Plan plan{.hash = costs.order().profile().hash,
            .batch = options.batch,
            .micro_batches = candidate.setting.micro_batches,
            .schedule = candidate.setting.schedule};
  for (const StageChoice& each : candidate.stages) plan.stages.push_back({.replicas = each.replicas, .recompute = each.recompute});
  const Schedule schedule = schedule_of(plan);
  const std::vector<StageSetting> settings = settings_of_stages(plan, schedule);
  std::vector<Affine> borders;
  int begin = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const int end = candidate.stages[i].end;
    plan.stages[i].figures = figures_of(stage_load(costs, begin, end, settings[i].rows), settings[i], cluster, options.parameters);
    borders.push_back(costs.border(end));
    begin = end;
  }
  predict_step(plan, schedule, borders, cluster);
  return plan;
}

/// Adds the operator lists, which are long, to the winning plan only.
void name_operators(Plan& plan, const Candidate& candidate, const BlockCostTable& costs) {
  int begin = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const int end = candidate.stages[i].end;
    plan.stages[i].operators = costs.operators_of(begin, end);
    if (plan.stages[i].recompute == Recompute::selective) {
      for (int block = begin; block < end; ++block) plan.stages[i].segments.push_back(costs.order().operator_at(costs.begin_of(block)));
    }
    begin = end;
  }
}

struct Simulated {
  Candidate candidate;
  Plan plan;
};

/// The time of a step, plus the penalty for the slowest stage; see SearchSetting::balance.
double balanced_step_s(const Simulated& simulated) {
  double slowest = 0;
  for (const StagePlan& stage : simulated.plan.stages) slowest = std::max(slowest, stage.figures.forward_s + stage.figures.backward_s);
  return simulated.plan.step_s + simulated.candidate.setting.balance * slowest;
}

/// The outer search over settings. Simulates the best candidates and sorts them, best first.
class Search {
 public:
  Search(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options) : costs_(costs), cluster_(cluster), options_(options) {}

  std::vector<Simulated> run(const std::vector<SearchSetting>& settings) {
    double best = infinity;
    for (const SearchSetting& setting : settings) {
      std::vector<Candidate> found = search_stages(costs_, setting, share_of(cluster_, setting.schedule), options_, slack * best);
      std::stable_sort(found.begin(), found.end(), by_objective);
      for (size_t i = 0; i < found.size(); ++i) {
        best = std::min(best, found[i].objective);
        (i < best_of_setting ? sure_ : others_).push_back(std::move(found[i]));
      }
    }
    std::stable_sort(others_.begin(), others_.end(), by_objective);
    std::vector<Simulated> simulated;
    for (const Candidate& candidate : sure_) simulate_candidate(candidate, slack * best, simulated);
    for (size_t i = 0; i < others_.size() && i < best_of_all; ++i) simulate_candidate(others_[i], slack * best, simulated);
    const auto order = [](const Simulated& s) {
      return std::tuple(balanced_step_s(s), s.plan.devices(), s.plan.stages.size(), s.plan.micro_batches);
    };
    std::stable_sort(simulated.begin(), simulated.end(), [&](const Simulated& a, const Simulated& b) { return order(a) < order(b); });
    return simulated;
  }

 private:
  // The objective overestimates the cost of transfers and all-reduces, so candidates within this factor of the best one are simulated.
  static constexpr double slack = 1.25;
  static constexpr size_t best_of_setting = 4;
  static constexpr size_t best_of_all = 64;

  static bool by_objective(const Candidate& a, const Candidate& b) { return a.objective < b.objective; }

  void simulate_candidate(const Candidate& candidate, double limit, std::vector<Simulated>& simulated) const {
    if (candidate.objective <= limit) simulated.push_back({candidate, plan_of(candidate, costs_, cluster_, options_)});
  }

  const BlockCostTable& costs_;
  const Cluster& cluster_;
  const PlanOptions& options_;
  std::vector<Candidate> sure_;
  std::vector<Candidate> others_;
};

double relaxed_step(const BlockCostTable& costs, const Cluster& cluster, PlanOptions options, const std::vector<SearchSetting>& settings) {
  options.gap = std::max(options.gap, 0.02);
  return Search(costs, cluster, options).run(settings).front().plan.step_s;
}

Relaxations relaxations(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options, const std::vector<SearchSetting>& settings,
                        const Plan& best) {
  const auto with = [&](auto change) {
    Cluster relaxed = cluster;
    change(relaxed);
    return std::min(best.step_s, relaxed_step(costs, relaxed, options, settings));
  };
  Relaxations relaxed{.memory = with([](Cluster& c) { c.memory_bytes = infinity; }),
                      .links = with([](Cluster& c) { c.between_stages = {}; }),
                      .all_reduce = with([](Cluster& c) { c.within_stage = {}; })};
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
  visitor.field("schedule", options.schedule, schedule_names(), About{.meaning = "the only schedule to try; unset: gpipe and 1f1b"});
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
  const std::vector<SearchSetting> settings = settings_of(costs.blocks(), cluster, options);
  std::vector<Simulated> simulated = Search(costs, cluster, options).run(settings);
  if (simulated.empty()) throw Error(why_infeasible(costs, settings, cluster, options));

  PlanResult result{.cluster = cluster, .options = options, .profile = profile};
  result.settings = static_cast<int>(settings.size());
  result.simulated = static_cast<int>(simulated.size());
  std::set<std::pair<int, std::vector<StageChoice>>> known;
  for (Simulated& s : simulated) {
    if (static_cast<int>(result.plans.size()) == options.best_plans) break;
    if (!known.insert({s.plan.micro_batches, s.candidate.stages}).second) continue;
    name_operators(s.plan, s.candidate, costs);
    result.plans.push_back(std::move(s.plan));
  }
  result.relaxed = relaxations(costs, cluster, options, settings, result.best());
  return result;
}

}  // namespace tw::pipeline
