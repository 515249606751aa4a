// SPDX-License-Identifier: Apache-2.0
#include "plan_prediction.hpp"

#include <algorithm>
#include <map>
#include <tw/base/contract.hpp>

#include "schedule_times.hpp"

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

/// Bytes of parameters that count in a stage.
struct StageParameters {
  double bytes = 0;       // without those that an earlier stage of the same device has
  double tied_bytes = 0;  // of these, what other devices have too
};

std::vector<StageParameters> parameters_of_stages(const Plan& plan, const StageBlocks& blocks) {
  std::vector<StageParameters> found;
  int begin = 0;
  for (const int end : blocks.ends) {
    found.push_back({.bytes = blocks.costs.at(begin, end).parameter_bytes});
    begin = end;
  }
  const std::vector<int> device_of = device_of_stages(plan);
  for (const SharedParameter& each : blocks.costs.shared_parameters()) {
    std::map<int, size_t> first_stages;  // by device, its first stage that uses the parameter
    size_t before = found.size();
    for (const int block : each.blocks) {
      const auto stage = static_cast<size_t>(std::ranges::upper_bound(blocks.ends, block) - blocks.ends.begin());
      if (stage == before) continue;
      before = stage;
      if (!first_stages.emplace(device_of[stage], stage).second) found[stage].bytes -= each.bytes;
    }
    if (first_stages.size() == 1) continue;
    for (const auto& [device, stage] : first_stages) found[stage].tied_bytes += each.bytes;
  }
  return found;
}

/// Sets the figures of each stage by itself.
void set_figures(Plan& plan, const StageBlocks& blocks, const Cluster& cluster, const ParameterMemory& parameters, const HeldMicroBatches& held) {
  const std::vector<StageParameters> of_stages = parameters_of_stages(plan, blocks);
  int begin = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    StagePlan& stage = plan.stages[i];
    const int64_t rows = share_of_rows(plan.rows(), stage.replicas);
    const StageSetting setting{
        .rows = rows, .replicas = stage.replicas, .in_flight = held.activations[i], .recompute = stage.recompute, .waiting = held.waiting[i]};
    StageLoad load = stage_load(blocks.costs, begin, blocks.ends[i], rows);
    load.parameter_bytes = of_stages[i].bytes;
    load.tied_bytes = of_stages[i].tied_bytes;
    stage.figures = figures_of(load, setting, cluster, parameters);
    begin = blocks.ends[i];
  }
}

void set_transfers(Plan& plan, const StageBlocks& blocks, const Cluster& cluster) {
  const std::vector<int> device_of = device_of_stages(plan);
  for (size_t i = 0; i + 1 < plan.stages.size(); ++i) {
    if (device_of[i] == device_of[i + 1]) continue;
    plan.stages[i].figures.transfer_s = transfer_seconds(blocks.costs.border(blocks.ends[i]), plan.rows(), plan.stages[i].replicas,
                                                         plan.stages[i + 1].replicas, cluster.between_stages);
  }
}

/// Sets exposed all-reduces, step time and bubble.
void set_step(Plan& plan, const ScheduleTimes& times, const Cluster& cluster) {
  const std::vector<int> device_of = device_of_stages(plan);
  plan.step_s = times.duration;
  double idle = 0;
  for (size_t device = 0; device < times.devices.size(); ++device) {
    double all_reduce = 0;
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      if (device_of[i] == static_cast<int>(device)) all_reduce += plan.stages[i].figures.all_reduce_s;
    }
    const DeviceTimes& of_device = times.devices[device];
    const double end = std::max(of_device.last_end, (cluster.overlapped_all_reduce ? of_device.last_begin : of_device.last_end) + all_reduce);
    StagePlan& first = plan.stages[static_cast<size_t>(std::ranges::find(device_of, static_cast<int>(device)) - device_of.begin())];
    first.figures.exposed_s = std::max(0.0, end - times.duration);
    plan.step_s = std::max(plan.step_s, end);
    idle += first.replicas * (times.duration - of_device.busy);
  }
  plan.bubble = times.duration > 0 ? std::max(0.0, idle / (plan.devices() * times.duration)) : 0;
}

}  // namespace

std::vector<PassTimes> pass_times(const Plan& plan) {
  std::vector<PassTimes> times;
  for (const StagePlan& stage : plan.stages) {
    times.push_back({.forward = stage.figures.forward_s,
                     .backward = stage.figures.backward_s,
                     .weights = stage.figures.weights_s,
                     .transfer = stage.figures.transfer_s});
  }
  return times;
}

Simulation simulation_of(const Plan& plan) { return simulate(schedule_of(plan), pass_times(plan)); }

void predict(Plan& plan, const StageBlocks& blocks, const Cluster& cluster, const ParameterMemory& parameters, const DefaultSchedule& default_one,
             ActionOrder order) {
  set_figures(plan, blocks, cluster, parameters, default_one.held);
  set_transfers(plan, blocks, cluster);
  const std::vector<PassTimes> times = pass_times(plan);
  const std::optional<Schedule> made = order == ActionOrder::by_times ? schedule_by_times(default_one, times) : std::nullopt;
  if (made) {
    set_figures(plan, blocks, cluster, parameters, held_by(*made));
    set_transfers(plan, blocks, cluster);
  }
  set_step(plan, times_of(made ? *made : default_one.schedule, times), cluster);
}

Plan predicted(Plan plan, const Profile& profile, const Cluster& cluster, const ParameterMemory& parameters) {
  cluster.validate();
  expect_none(out_of_bounds("parameters", parameters));
  const std::vector<std::string> problems = problems_of(plan, profile, cluster.devices);
  TW_EXPECTS(problems.empty(), problems.front());
  StageOrder ordered = order_of(plan, profile);
  const OperatorOrder order(profile, std::move(ordered.operators));
  const BlockCostTable costs(order, std::move(ordered.begins));
  const std::vector<int> ends(ordered.first_segment.begin() + 1, ordered.first_segment.end());
  predict(plan, {costs, ends}, cluster, parameters, default_schedule(plan.schedule, schedule_devices(plan), plan.micro_batches),
          ActionOrder::by_times);
  return plan;
}

}  // namespace tw::pipeline
