// SPDX-License-Identifier: Apache-2.0
#include "plan_prediction.hpp"

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/planning/schedule_check.hpp>

namespace tw::pipeline {
namespace {

/// The operators of all stages in sequence, cut into segments, so that each stage is a range of blocks.
struct StageOrder {
  std::vector<int> operators;      // operators that see the batch
  std::vector<int> begins;         // begins of segments, and the end
  std::vector<int> first_segment;  // first segment of each stage, and the end
};

StageOrder order_of(const Plan& plan, const Profile& profile) {
  const std::vector<bool> sees = sees_batch(profile);
  StageOrder order;
  for (const StagePlan& stage : plan.stages) {
    order.first_segment.push_back(static_cast<int>(order.begins.size()));
    order.begins.push_back(static_cast<int>(order.operators.size()));
    for (const int op : stage.operators) {
      if (!sees[static_cast<size_t>(op)]) continue;
      const auto place = static_cast<int>(order.operators.size());
      if (stage.begins_segment(op) && place > order.begins.back()) order.begins.push_back(place);
      order.operators.push_back(op);
    }
  }
  order.first_segment.push_back(static_cast<int>(order.begins.size()));
  order.begins.push_back(static_cast<int>(order.operators.size()));
  return order;
}

std::vector<PassTimes> times_of(const Plan& plan) {
  std::vector<PassTimes> times;
  for (const StagePlan& stage : plan.stages) {
    times.push_back({.forward = stage.figures.forward_s,
                     .backward = stage.figures.backward_s,
                     .weights = stage.figures.weights_s,
                     .transfer = stage.figures.transfer_s});
  }
  return times;
}

}  // namespace

Simulation simulation_of(const Plan& plan) { return simulate(schedule_of(plan), times_of(plan)); }

std::vector<StageSetting> settings_of_stages(const Plan& plan, const Schedule& schedule) {
  const std::vector<int> held = max_activations(schedule);
  const std::vector<int> waiting = max_waiting(schedule);
  std::vector<StageSetting> settings;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    settings.push_back({.rows = share_of_rows(plan.rows(), stage.replicas),
                        .replicas = stage.replicas,
                        .in_flight = held[i],
                        .recompute = stage.recompute,
                        .waiting = waiting[i]});
  }
  return settings;
}

void predict_step(Plan& plan, const Schedule& schedule, const std::vector<Affine>& borders, const Cluster& cluster) {
  const std::vector<int> device_of = schedule.device_of_stages();
  for (size_t i = 0; i + 1 < plan.stages.size(); ++i) {
    if (device_of[i] == device_of[i + 1]) continue;
    plan.stages[i].figures.transfer_s =
        transfer_seconds(borders[i], plan.rows(), plan.stages[i].replicas, plan.stages[i + 1].replicas, cluster.between_stages);
  }
  const Simulation simulation = simulate(schedule, times_of(plan));
  plan.step_s = simulation.duration;
  double idle = 0;
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    double all_reduce = 0;
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      if (device_of[i] == static_cast<int>(device)) all_reduce += plan.stages[i].figures.all_reduce_s;
    }
    const Simulation::Span& last = simulation.devices[device].back();
    const double end = std::max(last.end, (cluster.overlapped_all_reduce ? last.begin : last.end) + all_reduce);
    StagePlan& first = plan.stages[static_cast<size_t>(std::ranges::find(device_of, static_cast<int>(device)) - device_of.begin())];
    first.figures.exposed_s = std::max(0.0, end - simulation.duration);
    plan.step_s = std::max(plan.step_s, end);
    idle += first.replicas * simulation.bubble(device);
  }
  plan.bubble = simulation.duration > 0 ? std::max(0.0, idle / (plan.devices() * simulation.duration)) : 0;
}

Plan predicted(Plan plan, const Profile& profile, const Cluster& cluster, const ParameterMemory& parameters) {
  cluster.validate();
  expect_none(out_of_bounds("parameters", parameters));
  const std::vector<std::string> problems = problems_of(plan, profile, cluster.devices);
  TW_EXPECTS(problems.empty(), problems.front());
  StageOrder ordered = order_of(plan, profile);
  const OperatorOrder order(profile, std::move(ordered.operators));
  const BlockCostTable costs(order, std::move(ordered.begins));
  const Schedule schedule = schedule_of(plan);
  const std::vector<StageSetting> settings = settings_of_stages(plan, schedule);
  const auto count = static_cast<int>(plan.stages.size());
  std::vector<Affine> borders;
  for (int i = 0; i < count; ++i) {
    StagePlan& stage = plan.stages[static_cast<size_t>(i)];
    const StageSetting& setting = settings[static_cast<size_t>(i)];
    const int begin = ordered.first_segment[static_cast<size_t>(i)];
    const int end = ordered.first_segment[static_cast<size_t>(i) + 1];
    stage.figures = figures_of(stage_load(costs, begin, end, setting.rows), setting, cluster, parameters);
    borders.push_back(costs.border(end));
  }
  predict_step(plan, schedule, borders, cluster);
  return plan;
}

}  // namespace tw::pipeline
