// SPDX-License-Identifier: Apache-2.0
#include "plan_search.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <tw/base/numbers.hpp>

#include "plan_prediction.hpp"
#include "schedule_order.hpp"

namespace tw::pipeline {
namespace {

// What halves cost where no device waits, measured: a plan that is shorter by less is not worth a more complicated schedule.
constexpr double negligible_gain = 0.02;

/// The time of a step, plus the penalty for the slowest stage; see SearchSetting::balance.
double balanced_step_s(const SimulatedPlan& simulated) {
  double slowest = 0;
  for (const StagePlan& stage : simulated.plan.stages) slowest = std::max(slowest, stage.figures.forward_s + stage.figures.backward_s);
  return simulated.plan.step_s + simulated.candidate.setting.balance * slowest;
}

class PlanSearch {
 public:
  PlanSearch(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options, DefaultSchedules& schedules)
      : costs_(costs), cluster_(cluster), options_(options), schedules_(schedules) {}

  SearchResult run(std::vector<SearchSetting> settings) {
    // Good candidates first: the search for others then ends sooner.
    std::ranges::stable_sort(settings, {}, [&](const SearchSetting& setting) { return estimate(setting); });
    for (const SearchSetting& setting : settings) {
      Candidates& of_kind = candidates_[kind_of(setting)];
      const double good_enough = slack * of_kind.best;
      if (is_too_large(setting) || (setting.is_uniform() && estimate(setting) > good_enough)) continue;
      const SearchSetting limited = with_limits(setting, costs_, schedules_);
      std::vector<Candidate> found = search_stages(costs_, limited, share_of(cluster_, setting.schedule), options_, good_enough);
      if (found.empty() && good_enough == infinity && setting.is_uniform()) {
        int& most = too_large_[key_of(setting)];
        most = std::max(most, setting.max_replicas);
      }
      std::ranges::stable_sort(found, {}, &Candidate::objective);
      for (size_t i = 0; i < found.size(); ++i) {
        of_kind.best = std::min(of_kind.best, found[i].objective);
        (i < best_of_setting ? of_kind.leading : of_kind.others).push_back(std::move(found[i]));
      }
    }
    for (Candidates& of_kind : candidates_) simulate_kind(of_kind);
    sort(simulated_);
    prefer_simple_schedules();
    return {std::move(simulated_), count_};
  }

 private:
  // The objective overestimates the cost of transfers and all-reduces, so candidates within this factor of the best one of their kind are simulated.
  static constexpr double slack = 1.25;
  static constexpr size_t best_of_setting = 4;
  static constexpr size_t best_of_all = 64;
  static constexpr size_t best_by_times = 4;  // schedules by the stages' times are made for these alone

  struct Candidates {
    double best = infinity;          // objective
    std::vector<Candidate> leading;  // the best of each setting
    std::vector<Candidate> others;   // of which the best are simulated, too
  };

  /// Kinds whose objectives can be compared; those of others are approximations of another quality.
  static size_t kind_of(const SearchSetting& setting) {
    return at(static_cast<int>(setting.schedule == ScheduleKind::gpipe ? ScheduleKind::one_forward_one_backward : setting.schedule));
  }

  using Key = std::tuple<ScheduleKind, int, int>;  // schedule, micro-batches, stages
  static Key key_of(const SearchSetting& setting) { return {setting.schedule, setting.micro_batches, setting.max_stages}; }

  /// Whether no plan fits in memory since none does with more replicas. One replica has no buffers for an all-reduce, and may fit nevertheless.
  bool is_too_large(const SearchSetting& setting) const {
    const auto known = too_large_.find(key_of(setting));
    return known != too_large_.end() && setting.is_uniform() && 1 < setting.max_replicas && setting.max_replicas <= known->second;
  }

  /// A rough objective, regardless of memory; of a uniform setting, a lower bound.
  double estimate(const SearchSetting& setting) const {
    if (setting.is_uniform()) return lower_bound(costs_, setting, setting.max_stages, setting.max_replicas, cluster_, options_);
    double least = infinity;
    for (int stages = setting.min_stages; stages <= setting.max_stages; stages *= 2) {
      const auto replicas = static_cast<int>(std::clamp<int64_t>(setting.devices / stages, 1, setting.rows));
      least = std::min(least, lower_bound(costs_, setting, stages, replicas, cluster_, options_));
    }
    return least;
  }

  void simulate_kind(Candidates& candidates) {
    std::vector<SimulatedPlan> simulated;
    std::ranges::stable_sort(candidates.others, {}, &Candidate::objective);
    if (candidates.others.size() > best_of_all) candidates.others.resize(best_of_all);
    for (const std::vector<Candidate>* each : {&candidates.leading, &candidates.others}) {
      for (const Candidate& candidate : *each) {
        if (candidate.objective <= slack * candidates.best) simulated.push_back({candidate, plan_of(candidate, ActionOrder::default_order)});
      }
    }
    count_ += static_cast<int>(simulated.size());
    sort(simulated);
    if (!simulated.empty() && stages_per_device(simulated.front().plan.schedule) > 1) {
      if (simulated.size() > best_by_times) simulated.resize(best_by_times);
      for (SimulatedPlan& each : simulated) each.plan = plan_of(each.candidate, ActionOrder::by_times);
    }
    std::ranges::move(simulated, std::back_inserter(simulated_));
  }

  Plan plan_of(const Candidate& candidate, ActionOrder order) {
    Plan plan{.hash = costs_.order().profile().hash,
              .batch = options_.batch,
              .micro_batches = candidate.setting.micro_batches,
              .schedule = candidate.setting.schedule};
    StageBlocks blocks{costs_, {}};
    for (const StageChoice& each : candidate.stages) {
      plan.stages.push_back({.replicas = each.replicas, .recompute = each.recompute});
      blocks.ends.push_back(each.end);
    }
    const DefaultSchedule& default_one = schedules_.get(plan.schedule, schedule_devices(plan), plan.micro_batches);
    predict(plan, blocks, cluster_, options_.parameters, default_one, order);
    return plan;
  }

  static void sort(std::vector<SimulatedPlan>& simulated) {
    const auto order = [](const SimulatedPlan& s) {
      return std::tuple(balanced_step_s(s), s.plan.devices(), s.plan.stages.size(), s.plan.micro_batches);
    };
    std::ranges::stable_sort(simulated, {}, order);
  }

  /// Moves the plan with the simplest schedule to the front, among those that take little longer than the shortest.
  void prefer_simple_schedules() {
    if (simulated_.empty()) return;
    const double enough = (1 + negligible_gain) * balanced_step_s(simulated_.front());
    const auto end = std::ranges::find_if(simulated_, [&](const SimulatedPlan& each) { return balanced_step_s(each) > enough; });
    const auto simplest =
        std::ranges::min_element(simulated_.begin(), end, {}, [](const SimulatedPlan& each) { return complexity(each.plan.schedule); });
    std::rotate(simulated_.begin(), simplest, simplest + 1);
  }

  const BlockCostTable& costs_;
  const Cluster& cluster_;
  const PlanOptions& options_;
  DefaultSchedules& schedules_;
  std::vector<Candidates> candidates_ = std::vector<Candidates>(schedule_names().size());  // by kind_of()
  std::map<Key, int> too_large_;                                                           // numbers of replicas with which no plan fits
  std::vector<SimulatedPlan> simulated_;
  int count_ = 0;  // simulated plans
};

}  // namespace

SearchResult search_plans(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options, const std::vector<SearchSetting>& settings,
                          DefaultSchedules& schedules) {
  return PlanSearch(costs, cluster, options, schedules).run(settings);
}

void name_operators(SimulatedPlan& simulated, const BlockCostTable& costs) {
  int begin = 0;
  for (size_t i = 0; i < simulated.plan.stages.size(); ++i) {
    StagePlan& stage = simulated.plan.stages[i];
    const int end = simulated.candidate.stages[i].end;
    stage.operators = costs.operators_of(begin, end);
    if (stage.recompute == Recompute::selective) {
      for (int block = begin; block < end; ++block) stage.segments.push_back(costs.order().operator_at(costs.begin_of(block)));
    }
    begin = end;
  }
}

}  // namespace tw::pipeline
