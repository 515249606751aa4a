// SPDX-License-Identifier: Apache-2.0
#include "batch_run.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/step_communicator.hpp>
#include <tw/mpi/error.hpp>

#include "random_key.hpp"

namespace tw::pipeline {
namespace {

/// Rows of a batch. Autograd sees each as a separate tensor, so a block that works in place cannot damage the graph of another micro-batch.
std::vector<at::Tensor> narrow_all(const std::vector<at::Tensor>& tensors, Rows rows) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& each : tensors) parts.push_back(each.narrow(0, rows.begin, rows.count()).variable_data());
  return parts;
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& each : tensors) copies.push_back(each.clone());
  return copies;
}

constexpr std::array<const char*, 4> pass_names{"forward pass", "backward pass", "backward pass", "weights' half of the backward pass"};  // by kind
constexpr std::array<const char*, 4> phase_names{"micro-batch forward", "micro-batch backward", "micro-batch backward", "micro-batch weights"};

}  // namespace

BatchRun::BatchRun(const Place& place, const StageModel& model, const PipelineOptions& options, const Batch& batch, uint64_t seed, uint64_t call,
                   const OnPhase& on_phase)
    : place_(place),
      model_(model),
      options_(options),
      batch_(batch),
      seed_(seed),
      call_(call),
      on_phase_(on_phase),
      passes_(place.stages().size() * static_cast<size_t>(options.schedule.micro_batches)),
      changes_(shares_state() ? model.module : nullptr) {
  for (const Action& action : actions()) {
    if (action.kind == Action::Kind::backward_weight) in_flight(action.stage, action.micro_batch).has_halves = true;
  }
}

double BatchRun::execute() {
  const auto follows = [](const Action& now, const Action& next) {
    return next.makes_cotangents() && next.stage == now.stage && next.micro_batch == now.micro_batch;
  };
  for (size_t i = 0; i < actions().size(); ++i) {
    const Action& action = actions()[i];
    const auto begin = std::chrono::steady_clock::now();
    try {
      execute(action, i + 1 < actions().size() && follows(action, actions()[i + 1]));
    } catch (const RevokedError&) {
      throw;
    } catch (const std::exception&) {
      throw Error(concat("stage ", action.stage, ", replica ", place_.replica, ", ", pass_names.at(static_cast<size_t>(action.kind)),
                         " of micro-batch ", action.micro_batch, ": ", message_of_current_exception()));
    }
    if (on_phase_) on_phase_(phase_names.at(static_cast<size_t>(action.kind)), begin, std::chrono::steady_clock::now());
    std::erase_if(sends_, [](Work& work) { return work.test(); });
  }
  return losses_.empty() ? 0 : at::stack(losses_).sum(at::kDouble).item<double>();  // the only point where the host waits for the device
}

const std::vector<Action>& BatchRun::actions() const { return options_.schedule.devices[static_cast<size_t>(place_.device)]; }

BatchRun::InFlight& BatchRun::in_flight(int stage, int m) {
  return passes_[place_.index_of(stage) * static_cast<size_t>(options_.schedule.micro_batches) + static_cast<size_t>(m)];
}

void BatchRun::execute(const Action& action, bool backward_follows) {
  if (mine_of(action.micro_batch).count() == 0) return;
  switch (action.kind) {
    case Action::Kind::forward: return forward(action.stage, action.micro_batch, backward_follows);
    case Action::Kind::backward_weight: return backward_weights(action.stage, action.micro_batch);
    default: return backward(action.stage, action.micro_batch);
  }
}

int64_t BatchRun::rows() const {
  int64_t rows = 0;
  for (int m = 0; m < options_.schedule.micro_batches; ++m) rows += mine_of(m).count();
  return rows;
}

Recompute BatchRun::recompute_of(int stage) const {
  return options_.recompute.empty() ? Recompute::none : options_.recompute[static_cast<size_t>(stage)];
}

/// The stage's functions for a micro-batch, ending with the loss on the last stage.
std::vector<StagePass::Function> BatchRun::segments_of(int stage, Rows mine) {
  const Stage& computes = model_.stages[place_.index_of(stage)];
  const graph::PassRows rows{mine.count(), key_of_call(seed_, call_), mine.begin};
  std::vector<StagePass::Function> functions;
  const auto add = [&](const Stage::Forward& forward) {
    functions.emplace_back([&forward, rows](const std::vector<at::Tensor>& inputs) { return forward(inputs, rows); });
  };
  if (recompute_of(stage) == Recompute::selective) std::for_each(computes.segments.begin(), computes.segments.end(), add);
  if (functions.empty()) add(computes.forward);
  if (stage != place_.last_stage()) return functions;
  functions.back() = [this, mine, last = std::move(functions.back())](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
    const double weight = static_cast<double>(mine.count()) / static_cast<double>(batch_.rows);
    return {batch_.loss(last(inputs), narrow_all(batch_.targets, mine)).mul(weight)};
  };
  return functions;
}

void BatchRun::forward(int stage, int m, bool backward_follows) {
  InFlight& now = in_flight(stage, m);
  now.received = inputs_of(stage, m);
  const std::vector<uint8_t> wants = now.received.wants();
  const Recompute recompute = recompute_of(stage);
  now.pass = StagePass(*model_.module, segments_of(stage, mine_of(m)), recompute == Recompute::none || backward_follows,
                       {.trains = model_.trains_elsewhere, .in_halves = now.has_halves, .is_alone = !shares_state()});
  seed_with(generator_, {seed_, call_, m, stage, place_.replica});
  changes_.begin(stage);
  std::vector<at::Tensor> outputs = now.pass.forward(std::move(now.received.values), wants);
  changes_.end(stage);
  give_outputs(stage, m, std::move(outputs));
}

ReceivedActivations BatchRun::inputs_of(int stage, int m) {
  const Rows mine = mine_of(m);
  if (stage == 0) return {.values = narrow_all(batch_.inputs, mine)};
  if (!place_.has(stage - 1)) return receive_activations(place_.comm, place_.ranks.peers(stage - 1, rows_of(m), mine), stage - 1);
  Message handed = std::exchange(in_flight(stage, m).handed, {});
  return {.values = std::move(handed.values), .parts = {{.from = {place_.comm.rank(), mine}, .wants = std::move(handed.wants)}}};
}

void BatchRun::give_outputs(int stage, int m, std::vector<at::Tensor> outputs) {
  InFlight& now = in_flight(stage, m);
  if (stage == place_.last_stage()) {
    losses_.push_back(outputs.front().detach());
    now.sent.values.push_back({"", outputs.front().sizes().vec(), outputs.front().scalar_type()});
    now.sent.device = outputs.front().device();
  } else if (place_.has(stage + 1)) {
    // The next stage may work in place on what this stage's graph keeps.
    in_flight(stage + 1, m).handed = {copies_of(outputs), now.pass.wanted()};
  } else {
    const Rows mine = mine_of(m);
    const std::vector<Peer> after = place_.ranks.peers(stage + 1, rows_of(m), mine);
    now.sent = send_activations(place_.comm, after, {std::move(outputs), now.pass.wanted()}, mine, stage, sends_);
  }
}

void BatchRun::backward(int stage, int m) {
  std::vector<at::Tensor> cotangents = cotangents_of(stage, m);
  InFlight& now = in_flight(stage, m);
  StagePass pass = std::exchange(now.pass, StagePass());
  give_cotangents(stage, m, pass.backward(std::move(cotangents)));
  if (now.has_halves) now.pass = std::move(pass);
}

std::vector<at::Tensor> BatchRun::cotangents_of(int stage, int m) {
  InFlight& now = in_flight(stage, m);
  if (stage != place_.last_stage() && place_.has(stage + 1)) return std::exchange(now.cotangents, {});
  const SentActivations sent = std::exchange(now.sent, {});
  if (stage != place_.last_stage()) return collect_cotangents(place_.comm, sent, mine_of(m), stage);
  const TensorSpec& loss = sent.values.front();
  return {at::full(loss.shape, batch_.weight, at::device(sent.device).dtype(loss.dtype))};
}

void BatchRun::give_cotangents(int stage, int m, std::vector<at::Tensor> cotangents) {
  const ReceivedActivations received = std::exchange(in_flight(stage, m).received, {});
  if (stage > 0 && place_.has(stage - 1)) {
    in_flight(stage - 1, m).cotangents = std::move(cotangents);
  } else {
    return_cotangents(place_.comm, received, cotangents, mine_of(m), stage - 1, sends_);
  }
}

void BatchRun::backward_weights(int stage, int m) {
  StagePass pass = std::exchange(in_flight(stage, m).pass, StagePass());
  pass.backward_weights();
}

}  // namespace tw::pipeline
