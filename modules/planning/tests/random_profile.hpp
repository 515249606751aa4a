// SPDX-License-Identifier: Apache-2.0
// Random models, and the memory of a plan by definition, implemented independently of the planner.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/planning/planner.hpp>
#include <tw/planning/schedule_check.hpp>

namespace tw::pipeline::test {

inline double uniform(std::mt19937& random, double from, double to) { return from + (to - from) * static_cast<double>(random() % 10000) / 10000; }

/// Chains with forks, joins, operators without batch data, shared parameters, and outputs from inside.
inline Profile random_profile(std::mt19937& random, int operators) {
  Profile profile{.hash = "random", .input_bytes = {0, uniform(random, 1, 50)}};
  std::vector<int> constants;
  for (int i = 0; i < operators; ++i) {
    ProfiledOperator op{.name = concat("op", i)};
    const bool is_constant = i > 0 && random() % 10 == 0;
    if (!is_constant) {
      int before = i - 1;
      while (before >= 0 && std::find(constants.begin(), constants.end(), before) != constants.end()) --before;
      op.inputs.push_back(before);
      if (random() % 4 == 0) op.inputs.push_back(static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1);
    } else {
      constants.push_back(i);
    }
    if (random() % 4 != 0) {
      if (!profile.parameters.empty() && random() % 6 == 0) {
        op.parameters.push_back(static_cast<int>(random() % profile.parameters.size()));
      } else {
        profile.parameters.push_back({concat("p", i), std::floor(uniform(random, 1, 200))});
        op.parameters.push_back(static_cast<int>(profile.parameters.size()) - 1);
      }
    }
    op.forward = {uniform(random, 0, 0.5), uniform(random, 0.1, 1)};
    op.backward = {2 * op.forward.fixed, uniform(random, 1.5, 2.5) * op.forward.per_row};
    op.output_bytes = {0, uniform(random, 1, 50)};
    op.saved_bytes = {0, uniform(random, 1, 300)};
    op.workspace_bytes = {uniform(random, 0, 50), uniform(random, 0, 50)};
    profile.operators.push_back(op);
  }
  if (random() % 4 == 0) profile.outputs.push_back(static_cast<int>(random() % static_cast<unsigned>(operators + 1)) - 1);
  return profile;
}

/// Lets the part of each backward pass that gradients of parameters need, if there are any, run later.
inline void give_halves(Profile& profile, std::mt19937& random) {
  for (ProfiledOperator& op : profile.operators) {
    if (op.parameters.empty()) continue;
    const double share = uniform(random, 0.2, 0.7);
    op.weights = {share * op.backward.fixed, share * op.backward.per_row};
    op.waiting_bytes = {0, uniform(random, 1, 150)};
  }
}

/// Bytes of values produced before `position` of `order` that are used from there on, or are outputs of the model.
inline double crossing(const Profile& profile, const std::vector<int>& order, size_t position, double rows) {
  const std::set<int> before(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(position));
  std::set<int> values;
  const auto take = [&](int value) {
    if (value == -1 || before.contains(value)) values.insert(value);
  };
  for (size_t p = position; p < order.size(); ++p) {
    for (const int input : profile.operators[static_cast<size_t>(order[p])].inputs) take(input);
  }
  for (const int output : profile.outputs) take(output);
  double bytes = 0;
  for (const int value : values) bytes += (value == -1 ? profile.input_bytes : profile.operators[static_cast<size_t>(value)].output_bytes).of(rows);
  return bytes;
}

inline std::set<int> batch_operators(const Profile& profile) {
  std::set<int> batch{-1};
  for (int i = 0; i < static_cast<int>(profile.operators.size()); ++i) {
    for (const int input : profile.operators[static_cast<size_t>(i)].inputs) {
      if (batch.contains(input)) batch.insert(i);
    }
  }
  return batch;
}

/// Adds `op` and its inputs without batch data.
inline void add_with_constants(const Profile& profile, const std::set<int>& batch, int op, std::set<int>& operators) {
  operators.insert(op);
  for (const int input : profile.operators[static_cast<size_t>(op)].inputs) {
    if (!batch.contains(input)) add_with_constants(profile, batch, input, operators);
  }
}

/// Peak memory of the backward pass of [begin, end) in `order`: what operators without batch data save, what operators up to one save, and the
/// workspace of that one. The result is a line above all of these.
inline double backward_peak(const Profile& profile, const std::set<int>& batch, const std::vector<int>& order, size_t begin, size_t end,
                            double rows) {
  Affine constants;
  Affine saved;
  Affine most;
  const auto at_least = [&](Affine now) {
    now += saved;
    most = {std::max(most.fixed, now.fixed), std::max(most.per_row, now.per_row)};
  };
  std::set<int> all;
  for (size_t p = begin; p < end; ++p) add_with_constants(profile, batch, order[p], all);
  for (const int op : all) {
    if (batch.contains(op)) continue;
    constants += profile.operators[static_cast<size_t>(op)].saved_bytes;
    at_least(profile.operators[static_cast<size_t>(op)].workspace_bytes);
  }
  for (size_t p = begin; p < end; ++p) {
    const ProfiledOperator& op = profile.operators[static_cast<size_t>(order[p])];
    saved += op.saved_bytes;
    at_least(op.workspace_bytes);
  }
  return (most += constants).of(rows);
}

/// Bytes per device, by stage. A parameter counts in the first stage of a device that uses it. @param device_of of stages; empty: the schedule's
inline std::vector<double> memory_of(const Plan& plan, const Profile& profile, const ParameterMemory& per_byte, std::vector<int> device_of = {}) {
  const std::set<int> batch = batch_operators(profile);
  std::vector<int> order;
  std::vector<size_t> begins;
  for (const StagePlan& stage : plan.stages) {
    begins.push_back(order.size());
    std::copy_if(stage.operators.begin(), stage.operators.end(), std::back_inserter(order), [&](int op) { return batch.contains(op); });
  }
  const Schedule schedule = schedule_of(plan);
  const std::vector<int> held = max_activations(schedule);
  const std::vector<int> waiting = max_waiting(schedule);
  if (device_of.empty()) device_of = schedule.device_of_stages();
  std::vector<double> memory;
  std::set<std::pair<int, int>> counted;  // devices and parameters
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const size_t end = s + 1 < begins.size() ? begins[s + 1] : order.size();
    const auto rows = static_cast<double>((plan.rows() + stage.replicas - 1) / stage.replicas);
    std::set<int> parameters;
    double saved = 0;
    double left = 0;  // for the weights' half of a backward pass
    for (const int op : stage.operators) {
      const ProfiledOperator& of = profile.operators[static_cast<size_t>(op)];
      parameters.insert(of.parameters.begin(), of.parameters.end());
      saved += of.saved_bytes.of(rows);
      left += of.waiting_bytes.of(rows);
    }
    // Of the micro-batch whose backward pass runs, the larger of what this pass and what its weights' half needs.
    const double least = waiting[s] > 0 ? left : 0;
    double parameter_bytes = 0;
    for (const int p : parameters) {
      const bool is_new = counted.emplace(device_of[s], p).second;
      parameter_bytes += is_new ? profile.parameters[static_cast<size_t>(p)].bytes : 0;
    }
    double bytes = parameter_bytes * (per_byte.weights + per_byte.gradients + per_byte.optimizer / (per_byte.sharded_optimizer ? stage.replicas : 1));
    if (stage.replicas > 1) bytes += parameter_bytes * per_byte.gradients;
    const double in = crossing(profile, order, begins[s], rows);
    if (stage.recompute == Recompute::none)
      bytes += (held[s] - 1) * saved + std::max(least, backward_peak(profile, batch, order, begins[s], end, rows));
    if (stage.recompute == Recompute::full) bytes += held[s] * in + std::max(least, backward_peak(profile, batch, order, begins[s], end, rows));
    if (stage.recompute == Recompute::selective) {
      // The inputs of all segments for the other micro-batches in flight; for the one in its backward pass, only inputs that are not freed yet.
      double most = 0;
      double inputs = 0;
      for (size_t begin = begins[s]; begin < end;) {
        size_t next = begin + 1;
        while (next < end && std::find(stage.segments.begin(), stage.segments.end(), order[next]) == stage.segments.end()) ++next;
        inputs += crossing(profile, order, begin, rows);
        most = std::max(most, inputs + backward_peak(profile, batch, order, begin, next, rows));
        begin = next;
      }
      bytes += (held[s] - 1) * inputs + std::max(least, most);
    }
    bytes += std::max(0, waiting[s] - 1) * left;
    if (s > 0) bytes += 2 * in;
    if (end < order.size()) bytes += 2 * crossing(profile, order, end, rows);
    memory.push_back(bytes);
  }
  return memory;
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

}  // namespace tw::pipeline::test
