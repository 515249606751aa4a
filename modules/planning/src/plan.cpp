// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/plan.hpp>

#include <algorithm>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/planning/schedule_for.hpp>

#include "operator_order.hpp"
#include "plan_prediction.hpp"
#include "text.hpp"

namespace tw::pipeline {
namespace {

/// First stage of each operator; -1: none. Also reports operators that are on several stages, but use batch data.
std::vector<int> stage_of_operators(const Plan& plan, const Profile& profile, const std::vector<bool>& sees, std::vector<std::string>& problems) {
  std::vector<int> stage_of(profile.operators.size(), -1);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    int before = -1;
    for (const int op : plan.stages[stage].operators) {
      if (op < 0 || op >= static_cast<int>(profile.operators.size())) {
        problems.push_back(concat("stage ", stage, " has operator ", op, ", which does not exist"));
        continue;
      }
      if (op <= before)
        problems.push_back(concat("stage ", stage, ": operators are not ascending at \"", profile.operators[static_cast<size_t>(op)].name, '"'));
      before = op;
      int& first = stage_of[static_cast<size_t>(op)];
      if (first >= 0 && first != static_cast<int>(stage) && sees[static_cast<size_t>(op)]) {
        problems.push_back(concat("operator \"", profile.operators[static_cast<size_t>(op)].name, "\" is in stage ", first, " and in stage ", stage));
      }
      if (first < 0) first = static_cast<int>(stage);
    }
  }
  return stage_of;
}

void check_cut(const Plan& plan, const Profile& profile, std::vector<std::string>& problems) {
  const std::vector<bool> sees = sees_batch(profile);
  const std::vector<int> stage_of = stage_of_operators(plan, profile, sees, problems);
  for (size_t op = 0; op < stage_of.size(); ++op) {
    if (sees[op] && stage_of[op] < 0) problems.push_back(concat("operator \"", profile.operators[op].name, "\" is in no stage"));
  }
  if (!problems.empty()) return;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<int>& operators = plan.stages[stage].operators;
    if (std::none_of(operators.begin(), operators.end(), [&](int op) { return sees[static_cast<size_t>(op)]; })) {
      problems.push_back(concat("stage ", stage, " has no operator that uses batch data"));
    }
    for (const int op : operators) {
      for (const int input : profile.operators[static_cast<size_t>(op)].inputs) {
        if (input < 0) continue;
        const std::string& taken = profile.operators[static_cast<size_t>(input)].name;
        const std::string& name = profile.operators[static_cast<size_t>(op)].name;
        const int from = stage_of[static_cast<size_t>(input)];
        if (sees[static_cast<size_t>(input)] && from > static_cast<int>(stage)) {
          problems.push_back(
              concat("the cut is not convex: \"", name, "\" in stage ", stage, " uses \"", taken, "\" in stage ", from, ", which is later"));
        } else if (!sees[static_cast<size_t>(input)] && !std::binary_search(operators.begin(), operators.end(), input)) {
          problems.push_back(
              concat("\"", name, "\" in stage ", stage, " uses \"", taken, "\", which does not depend on batch data and must be in the same stage"));
        }
      }
    }
  }
}

/// The sum over all devices of the schedule. An edited plan may have any numbers of replicas.
int64_t replicas_of(const Plan& plan) {
  int64_t sum = 0;
  for (const StagePlan& stage : plan.stages) sum += stage.replicas;
  return sum / stages_per_device(plan.schedule);
}

/// Checks that the schedule's devices get all stages, and stages on one device as many replicas as each other.
void check_devices(const Plan& plan, std::vector<std::string>& problems) {
  const int per_device = stages_per_device(plan.schedule);
  if (plan.stages.size() % static_cast<size_t>(per_device) != 0) {
    problems.push_back(concat("the schedule ", name_of(plan.schedule), " has ", per_device, " stages on each device, but the plan has ",
                              plan.stages.size(), " stages"));
    return;
  }
  const std::vector<int> device_of = device_of_stages(plan);
  for (size_t stage = 0; stage < device_of.size(); ++stage) {
    const auto first = static_cast<size_t>(std::ranges::find(device_of, device_of[stage]) - device_of.begin());
    if (plan.stages[stage].replicas != plan.stages[first].replicas)
      problems.push_back(concat("stages ", first, " and ", stage, " are on the same device of the schedule ", name_of(plan.schedule), ", but have ",
                                plan.stages[first].replicas, " and ", plan.stages[stage].replicas, " replicas"));
  }
}

}  // namespace

bool StagePlan::begins_segment(int op) const { return recompute == Recompute::selective && std::ranges::count(segments, op) > 0; }

int Plan::devices() const { return static_cast<int>(std::min<int64_t>(replicas_of(*this), std::numeric_limits<int>::max())); }

std::vector<int> device_of_stages(const Plan& plan) { return device_of_stages(plan.schedule, schedule_devices(plan)); }

Schedule schedule_of(const Plan& plan) { return schedule_for(plan.schedule, schedule_devices(plan), plan.micro_batches, pass_times(plan)); }

std::vector<double> device_memory(const Plan& plan) {
  const std::vector<int> device_of = device_of_stages(plan);
  std::vector<double> bytes(static_cast<size_t>(std::ranges::max(device_of)) + 1, 0);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    bytes[static_cast<size_t>(device_of[stage])] += plan.stages[stage].figures.memory.total();
  return bytes;
}

std::vector<std::string> problems_of(const Plan& plan, const Profile& profile, int devices) {
  std::vector<std::string> problems = problems_of(profile);
  if (!problems.empty()) return problems;
  if (plan.hash != profile.hash) problems.push_back(wrong_hash(plan, profile));
  if (plan.micro_batches < 1) problems.push_back(concat("micro_batches must be at least 1, got ", plan.micro_batches));
  if (plan.batch < plan.micro_batches)
    problems.push_back(concat("a batch of ", plan.batch, " rows cannot be divided into ", plan.micro_batches, " micro-batches"));
  if (plan.stages.empty()) problems.emplace_back("the plan has no stages");
  if (!problems.empty()) return problems;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StagePlan& s = plan.stages[stage];
    if (s.replicas < 1) problems.push_back(concat("stage ", stage, ": replicas must be at least 1, got ", s.replicas));
    if (s.replicas > plan.rows())
      problems.push_back(concat("stage ", stage, ": ", s.replicas, " replicas cannot share micro-batches of ", plan.rows(),
                                " rows: each replica needs at least one"));
    for (const int segment : s.segments) {
      if (!std::binary_search(s.operators.begin(), s.operators.end(), segment)) {
        problems.push_back(concat("stage ", stage, ": operator ", segment, " begins a segment, but is not in the stage"));
      }
    }
  }
  if (problems.empty()) check_devices(plan, problems);
  if (replicas_of(plan) > devices) problems.push_back(concat("replicas sum up to ", replicas_of(plan), ", but there are ", devices, " devices"));
  check_cut(plan, profile, problems);
  return problems;
}

const std::vector<std::pair<std::string, Recompute>>& recompute_names() {
  static const std::vector<std::pair<std::string, Recompute>> names{
      {"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}};
  return names;
}

const char* name_of(Recompute recompute) noexcept { return recompute_names().at(static_cast<size_t>(recompute)).first.c_str(); }

std::vector<std::string> name_ranges(const std::vector<int>& operators, const Profile& profile) {
  std::vector<std::string> names;
  for (size_t i = 0; i < operators.size();) {
    size_t last = i;
    while (last + 1 < operators.size() && operators[last + 1] == operators[last] + 1) ++last;
    const auto name = [&](size_t at) { return profile.operators[static_cast<size_t>(operators[at])].name; };
    names.push_back(last == i ? name(i) : concat(name(i), " .. ", name(last)));
    i = last + 1;
  }
  return names;
}

}  // namespace tw::pipeline
