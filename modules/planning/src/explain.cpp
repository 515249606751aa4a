// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iomanip>
#include <tw/base/text_stream.hpp>
#include <tw/planning/planner.hpp>

#include "schedule_order.hpp"
#include "text.hpp"

namespace tw::pipeline {
namespace {

/// A limit, and the step time without it.
struct Limit {
  double step_s;
  const char* name;
  const char* without;
};

/// Whether no plan of another schedule is shorter than the best one, of which all ranks compute the figures once more.
bool is_shortest(const PlanResult& result) {
  const Plan& best = result.best();
  return std::ranges::none_of(result.by_schedule,
                              [&](const auto& of_kind) { return of_kind.first != best.schedule && of_kind.second < best.step_s; });
}

void write_limits(std::ostream& out, const PlanResult& result) {
  constexpr double negligible = 0.01;
  const double step = result.best().step_s;
  double shortest = step;  // without a limit, no plan is longer
  for (const auto& [kind, step_s] : result.by_schedule) shortest = std::min(shortest, step_s);
  const std::array<Limit, 4> limits{{{result.relaxed.memory, "memory", "unlimited device memory"},
                                     {result.relaxed.links, "the links between stages", "instant transfers between stages"},
                                     {result.relaxed.all_reduce, "the all-reduce of gradients", "instant all-reduces"},
                                     {result.relaxed.balance, "the slowest stage and the bubble", "no bubble, and all stages equally long"}}};
  // The last limit is a bound that perhaps no plan reaches, so it counts only if no other limit binds.
  const Limit* binding = &*std::min_element(limits.begin(), limits.end() - 1, [](const Limit& a, const Limit& b) { return a.step_s < b.step_s; });
  if (binding->step_s > (1 - negligible) * shortest) binding = &limits.back();
  if (binding->step_s > (1 - negligible) * shortest) {
    out << "bottleneck: the work itself; without any one of the limits, no plan is more than 1 % faster than the shortest one\n";
    return;
  }
  out << "bottleneck: " << binding->name << ". A step would take\n";
  for (const Limit& limit : limits) {
    out << "  " << std::setw(12) << ms(limit.step_s) << "  with " << limit.without << " (" << percent(1 - limit.step_s / step) << " less)\n";
  }
}

void write_schedules(std::ostream& out, const PlanResult& result) {
  const char* before = "other schedules: ";
  for (const auto& [kind, step_s] : result.by_schedule) {
    if (kind == result.best().schedule) continue;
    out << before << name_of(kind) << ' ' << ms(step_s);
    before = ", ";
  }
  if (result.by_schedule.size() > 1) out << '\n';
}

/// Names another plan, and says how much shorter or longer it is than the best one. @param if_shorter why it is not the best one nevertheless
void write_comparison(std::ostream& out, const char* what, const Plan& other, const Plan& best, const char* if_shorter) {
  out << what << summary(other) << ", ";
  if (other.step_s < best.step_s) {
    out << percent(1 - other.step_s / best.step_s) << " shorter" << if_shorter << '\n';
  } else {
    out << percent(other.step_s / best.step_s - 1) << " longer\n";
  }
}

void write_next(std::ostream& out, const PlanResult& result) {
  if (result.plans.size() == 1) {
    out << "next best: none was found\n";
    return;
  }
  const Plan& next = result.plans[1];
  const bool is_less_simple = complexity(next.schedule) > complexity(result.best().schedule);
  write_comparison(out, "next best: ", next, result.best(),
                   is_less_simple ? ", which is too little for a less simple schedule" : ", but its stages are less even");
}

void write_reasons(std::ostream& out, const PlanResult& result) {
  const Plan& best = result.best();
  if (result.best_is_given) {
    out << "\nwhy this plan: it was given\n";
    if (result.plans.size() > 1) write_comparison(out, "the planner's best: ", result.plans[1], best, "");
    return;
  }
  out << "\nwhy this plan: " << (is_shortest(result) ? "the shortest step" : "the simplest schedule with almost the shortest step") << " of "
      << result.simulated << " plans that were simulated, the best of " << result.settings
      << " settings (combinations of schedule, micro-batches, stages and replicas)\n";
  if (result.is_data_parallel()) {
    const bool recomputes = std::ranges::any_of(best.stages, [](const StagePlan& stage) { return stage.recompute != Recompute::none; });
    const char* const faster = is_shortest(result) ? "faster" : "more than 2 % faster";
    out << "the model fits on one device" << (recomputes ? " with recomputation" : "")
        << (best.devices() > 1 ? ": plain data parallelism wins, no pipeline is " : ": nothing is ") << faster
        << (best.devices() > 1 ? "\n" : " than one device alone\n");
  } else {
    const auto alone = std::find_if(result.plans.begin(), result.plans.end(),
                                    [](const Plan& plan) { return plan.stages.size() == static_cast<size_t>(stages_per_device(plan.schedule)); });
    if (alone != result.plans.end()) out << "data parallelism alone also fits, at " << ms(alone->step_s) << '\n';
  }
  write_next(out, result);
  write_schedules(out, result);
  write_limits(out, result);
}

}  // namespace

std::string explain(const PlanResult& result) {
  TextWriter out;
  out << describe(result.best(), result.profile);
  write_reasons(out, result);
  return std::move(out).str();
}

}  // namespace tw::pipeline
