// SPDX-License-Identifier: Apache-2.0
#include "evolution.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <tw/base/contract.hpp>

#include "generator.hpp"
#include "states.hpp"

namespace tw::layer_parallel {
namespace {

State leaves_of(const State& states) {
  return each(states, [](const at::Tensor& t) { return t.detach().clone(at::MemoryFormat::Contiguous).set_requires_grad(t.is_floating_point()); });
}

/// d/d(inputs) of <outputs, cotangents>; undefined where an input takes no part.
std::vector<at::Tensor> transposed(const State& outputs, const std::vector<at::Tensor>& inputs, const State& cotangents, bool keep) {
  std::vector<at::Tensor> reached;
  std::vector<at::Tensor> weights;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    reached.push_back(outputs[i]);
    weights.push_back(cotangents[i]);
  }
  if (reached.empty()) return std::vector<at::Tensor>(inputs.size());
  return torch::autograd::grad(reached, inputs, weights, keep, false, /*allow_unused=*/true);
}

/// Zeros where autograd found nothing.
State as_state(std::vector<at::Tensor> gradients, const State& like) {
  for (size_t i = 0; i < like.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(like[i]);
  }
  gradients.resize(like.size());
  return gradients;
}

}  // namespace

State Evolution::step(int64_t first, int64_t spacing, int64_t stride, const State& states, const State& extras, const BatchedLayer* trace,
                      const std::vector<at::Tensor>& parameters) const {
  const double dt = h * static_cast<double>(stride);
  if (!random) return stack.step(begin + first, spacing, states, extras, dt, trace, parameters);
  GeneratorGuard generator;
  std::vector<State> results;
  for (int64_t i = 0; i < states.front().size(0); ++i) {
    const int64_t layer = begin + first + i * spacing;
    generator.seed(random_layer_seed(seed, block, call), static_cast<uint64_t>(layer));
    results.push_back(row(stack.step(layer, 1, rows(states, i, 1), extras, dt), 0));
  }
  return layer_parallel::stack(results);
}

ForwardPropagator::ForwardPropagator(Evolution evolution, State extras, Tape* tape, std::function<void()> on_last)
    : evolution_(evolution), extras_(std::move(extras)), tape_(tape), on_last_(std::move(on_last)) {}

State ForwardPropagator::march(const March& march, const State& from, const Between& between) {
  if (march.last && on_last_) std::exchange(on_last_, {})();
  return this->march(march.runs, march.plan.level(march.level).stride, march.last && tape_ != nullptr, from, between);
}

State ForwardPropagator::march(const Runs& runs, int64_t stride, bool record, const State& from, const Between& between) {
  const BatchedLayer* trace =
      runs.count > 1 ? evolution_.stack.trace_for(row(from, 0), extras_, evolution_.h * static_cast<double>(stride)) : nullptr;
  if (record) return this->record(runs, from, trace);
  const c10::AutoGradMode no_gradients(false);
  State states = from;
  for (int64_t j = 0; j < runs.length; ++j) {
    const int64_t first = (runs.first + j) * stride;
    const int64_t spacing = runs.spacing * stride;
    std::vector<at::Tensor> parameters;
    if (trace != nullptr) parameters = evolution_.stack.parameters_of(evolution_.begin + first, runs.count, spacing);
    states = evolution_.step(first, spacing, stride, states, extras_, trace, parameters);
    if (between && j + 1 < runs.length) states = between(j, states);
  }
  return states;
}

// Layers that do not run together have graphs of their own, so that each can be passed alone.
State ForwardPropagator::record(const Runs& runs, const State& from, const BatchedLayer* trace) {
  if (trace == nullptr && runs.count > 1) {
    std::vector<State> ends;
    for (int64_t run = runs.count - 1; run >= 0; --run) {
      ends.push_back(row(record({runs.begin(run), 1, runs.length, runs.length}, rows(from, run, 1), nullptr), 0));
    }
    return stack({ends.rbegin(), ends.rend()});
  }
  const c10::AutoGradMode gradients(true);
  Record& record = tape_->records.emplace_back(Record{runs, leaves_of(from), {}, {}});
  State states = record.from;
  for (int64_t j = 0; j < runs.length; ++j) {
    if (trace != nullptr) {
      std::vector<at::Tensor>& parameters =
          record.parameters.emplace_back(evolution_.stack.parameters_of(evolution_.begin + runs.first + j, runs.count, runs.spacing));
      for (size_t p = 0; p < parameters.size(); ++p) parameters[p].set_requires_grad(evolution_.stack.parameters()[p].stack.requires_grad());
    }
    states = trace != nullptr ? evolution_.step(runs.first + j, runs.spacing, 1, states, extras_, trace, record.parameters.back())
                              : evolution_.step(runs.first + j, runs.spacing, 1, states, extras_);
  }
  record.to = states;
  return each(states, [](const at::Tensor& t) { return t.detach(); });
}

AdjointPropagator::AdjointPropagator(Evolution evolution, Tape& tape, std::vector<at::Tensor> gradients)
    : evolution_(evolution), tape_(tape), gradients_(std::move(gradients)) {
  for (size_t r = 0; r < tape_.records.size(); ++r) {
    const Runs& runs = tape_.records[r].runs;
    for (int64_t row = 0; row < runs.count; ++row) places_[runs.begin(row)] = {r, row};
  }
}

State AdjointPropagator::march(const March& march, const State& from, const Between& between) {
  const Level& level = march.plan.level(march.level);
  if (march.level == 0) return march_finest(march, from);
  std::vector<State> states;
  for (int64_t run = 0; run < march.runs.count; ++run) states.push_back(row(from, run));
  for (int64_t j = 0; j < march.runs.length; ++j) {
    for (int64_t run = 0; run < march.runs.count; ++run) {
      const int64_t reversed_end = (march.runs.begin(run) + j + 1) * level.stride;
      State& state = states[static_cast<size_t>(run)];
      state = coarse_step(march.plan.level(0).steps - reversed_end, level.stride, state);
    }
    if (between && j + 1 < march.runs.length) {
      const State stacked = between(j, stack(states));
      for (int64_t run = 0; run < march.runs.count; ++run) states[static_cast<size_t>(run)] = row(stacked, run);
    }
  }
  return stack(states);
}

// Runs of the adjoint are those of the forward direction from the other end, and lie in one record or in several.
State AdjointPropagator::march_finest(const March& march, const State& from) {
  const Runs& runs = march.runs;
  const int64_t steps = march.plan.level(0).steps;
  std::vector<State> results(static_cast<size_t>(runs.count));
  std::map<size_t, std::vector<int64_t>> by_record;
  for (int64_t run = 0; run < runs.count; ++run) by_record[places_.at(steps - runs.end(run)).record].push_back(run);
  for (const auto& [index, members] : by_record) {
    const Record& record = tape_.records[index];
    TW_EXPECTS(record.runs.length == runs.length, "an interval of the adjoint has ", runs.length, " steps, of the network ", record.runs.length);
    State cotangents;
    const auto row_of = [&](int64_t run) { return places_.at(steps - runs.end(run)).row; };
    const bool reversed = static_cast<int64_t>(members.size()) == record.runs.count && record.runs.count == runs.count;
    if (reversed) {
      cotangents = each(from, [](const at::Tensor& t) { return t.size(0) == 1 ? t : t.flip(0); });
    } else {
      cotangents = zeros_like_rows(from, record.runs.count);
      for (const int64_t run : members) copy(rows(cotangents, row_of(run), 1), rows(from, run, 1));
    }
    const State passed = through(record, cotangents, march.last);
    if (reversed) return each(passed, [](const at::Tensor& t) { return t.size(0) == 1 ? t : t.flip(0); });
    for (const int64_t run : members) results[static_cast<size_t>(run)] = row(passed, row_of(run));
  }
  return stack(results);
}

State AdjointPropagator::through(const Record& record, const State& cotangents, bool last) {
  std::vector<at::Tensor> inputs = record.from;
  const std::vector<StackedTensor>& stacked = evolution_.stack.parameters();
  struct Target {
    size_t input;
    at::Tensor gradient;
  };
  std::vector<Target> targets;
  if (last) {
    const int64_t first = evolution_.begin + record.runs.first - evolution_.stack.range().begin;  // in the stack
    for (int64_t j = 0; j < record.runs.length; ++j) {
      const std::vector<at::Tensor> own = record.parameters.empty() ? evolution_.stack.parameters_of(evolution_.begin + record.runs.first + j)
                                                                    : record.parameters[static_cast<size_t>(j)];
      for (size_t p = 0; p < own.size(); ++p) {
        if (!gradients_[p].defined() || !stacked[p].stack.requires_grad()) continue;
        const State gradient =
            record.parameters.empty() ? row({gradients_[p]}, first + j) : rows({gradients_[p]}, first + j, record.runs.count, record.runs.spacing);
        targets.push_back({inputs.size(), gradient[0]});
        inputs.push_back(own[p]);
      }
    }
  }
  std::vector<at::Tensor> results = transposed(record.to, inputs, cotangents, /*keep=*/true);
  for (const auto& [input, gradient] : targets) {
    if (results[input].defined()) gradient.add_(results[input]);
  }
  return as_state(std::move(results), record.from);
}

State AdjointPropagator::coarse_step(int64_t first_step, int64_t stride, const State& cotangent) {
  auto& [leaf, result] = coarse_steps_[{stride, first_step}];
  if (leaf.empty()) {
    const c10::AutoGradMode gradients(true);
    leaf = leaves_of(tape_.c_states.at(first_step));
    result = evolution_.step(first_step, 1, stride, leaf, tape_.extras);
  }
  const State stacked = each(cotangent, [](const at::Tensor& t) { return t.unsqueeze(0); });
  return row(as_state(transposed(result, leaf, stacked, /*keep=*/true), leaf), 0);
}

}  // namespace tw::layer_parallel
