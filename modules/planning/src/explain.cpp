// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iomanip>
#include <tw/base/text_stream.hpp>
#include <tw/planning/planner.hpp>

#include "text.hpp"

namespace tw::pipeline {
namespace {

/// A limit, and the step time without it.
struct Limit {
  double step_s;
  const char* name;
  const char* without;
};

void write_limits(std::ostream& out, const PlanResult& result) {
  constexpr double little = 0.01;
  const double step = result.best().step_s;
  const std::array<Limit, 4> limits{{{result.relaxed.memory, "memory", "unlimited device memory"},
                                     {result.relaxed.links, "the links between stages", "instant transfers between stages"},
                                     {result.relaxed.all_reduce, "the all-reduce of gradients", "instant all-reduces"},
                                     {result.relaxed.balance, "the slowest stage and the bubble", "no bubble, and all stages equally long"}}};
  // The last limit is a bound that perhaps no plan reaches, so it counts only if no other limit binds.
  const Limit* binding = &*std::min_element(limits.begin(), limits.end() - 1, [](const Limit& a, const Limit& b) { return a.step_s < b.step_s; });
  if (binding->step_s > (1 - little) * step) binding = &limits.back();
  if (binding->step_s > (1 - little) * step) {
    out << "bottleneck: the work itself; without any one of the limits, no plan is more than 1 % faster\n";
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

void write_reasons(std::ostream& out, const PlanResult& result) {
  const Plan& best = result.best();
  const bool is_shortest = std::ranges::none_of(result.by_schedule, [&](const auto& of_kind) { return of_kind.second < best.step_s; });
  out << "\nwhy this plan: " << (is_shortest ? "the shortest step" : "the simplest schedule with almost the shortest step") << " of "
      << result.simulated << " plans that were simulated, the best of " << result.settings
      << " settings (schedule x micro-batches x devices in a row)\n";
  if (result.is_data_parallel()) {
    const bool recomputes = std::ranges::any_of(best.stages, [](const StagePlan& stage) { return stage.recompute != Recompute::none; });
    out << "the model fits on one device" << (recomputes ? " with recomputation" : "")
        << (best.devices() > 1 ? ": plain data parallelism wins, no pipeline is faster\n" : ": nothing is faster than one device alone\n");
  } else {
    const auto alone = std::find_if(result.plans.begin(), result.plans.end(),
                                    [](const Plan& plan) { return plan.stages.size() == static_cast<size_t>(stages_per_device(plan.schedule)); });
    if (alone != result.plans.end()) out << "data parallelism alone also fits, at " << ms(alone->step_s) << '\n';
  }
  if (result.plans.size() > 1) {
    const Plan& next = result.plans[1];
    out << "next best: " << summary(next) << ", ";
    if (next.step_s < best.step_s) {
      out << percent(1 - next.step_s / best.step_s) << " shorter, which is too little for a less simple schedule\n";
    } else {
      out << percent(next.step_s / best.step_s - 1) << " longer\n";
    }
  } else {
    out << "next best: none was found\n";
  }
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
