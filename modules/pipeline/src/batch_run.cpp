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
      passes_(static_cast<size_t>(options.schedule.micro_batches)),
      has_halves_(passes_.size()) {
  for (const Action& action : actions()) {
    if (action.kind == Action::Kind::backward_weight) has_halves_[static_cast<size_t>(action.micro_batch)] = 1;
  }
}

double BatchRun::execute() {
  for (size_t i = 0; i < actions().size(); ++i) {
    const Action& action = actions()[i];
    const auto begin = std::chrono::steady_clock::now();
    try {
      execute(action, i + 1 < actions().size() && actions()[i + 1].makes_cotangents() && actions()[i + 1].micro_batch == action.micro_batch);
    } catch (const RevokedError&) {
      throw;
    } catch (const std::exception&) {
      throw Error(concat("stage ", place_.stage, ", replica ", place_.replica, ", ", pass_names.at(static_cast<size_t>(action.kind)),
                         " of micro-batch ", action.micro_batch, ": ", message_of_current_exception()));
    }
    if (on_phase_) on_phase_(phase_names.at(static_cast<size_t>(action.kind)), begin, std::chrono::steady_clock::now());
    std::erase_if(sends_, [](Work& work) { return work.test(); });
  }
  return losses_.empty() ? 0 : at::stack(losses_).sum(at::kDouble).item<double>();  // the only point where the host waits for the device
}

const std::vector<Action>& BatchRun::actions() const { return options_.schedule.devices[static_cast<size_t>(place_.stage)]; }

void BatchRun::execute(const Action& action, bool backward_follows) {
  if (place_.ranks.share(rows_of(action.micro_batch), place_.comm.rank()).count() == 0) return;
  switch (action.kind) {
    case Action::Kind::forward: return forward(action.micro_batch, backward_follows);
    case Action::Kind::backward_weight: return backward_weights(action.micro_batch);
    default: return backward(action.micro_batch);
  }
}

int64_t BatchRun::rows() const {
  int64_t rows = 0;
  for (int m = 0; m < options_.schedule.micro_batches; ++m) rows += place_.ranks.share(rows_of(m), place_.comm.rank()).count();
  return rows;
}

Recompute BatchRun::recompute() const { return options_.recompute.empty() ? Recompute::none : options_.recompute[static_cast<size_t>(place_.stage)]; }

/// The stage's functions for a micro-batch, ending with the loss on the last stage.
std::vector<StagePass::Function> BatchRun::segments_of(Rows mine) {
  const graph::PassRows rows{mine.count(), key_of_call(seed_, call_), mine.begin};
  std::vector<StagePass::Function> functions;
  const auto add = [&](const StageModel::Forward& forward) {
    functions.emplace_back([&forward, rows](const std::vector<at::Tensor>& inputs) { return forward(inputs, rows); });
  };
  if (recompute() == Recompute::selective) std::for_each(model_.segments.begin(), model_.segments.end(), add);
  if (functions.empty()) add(model_.forward);
  if (!place_.is_last()) return functions;
  functions.back() = [this, mine, last = std::move(functions.back())](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
    const double weight = static_cast<double>(mine.count()) / static_cast<double>(batch_.rows);
    return {batch_.loss(last(inputs), narrow_all(batch_.targets, mine)).mul(weight)};
  };
  return functions;
}

void BatchRun::forward(int m, bool backward_follows) {
  const Rows rows = rows_of(m);
  const Rows mine = place_.ranks.share(rows, place_.comm.rank());
  InFlight& now = passes_[static_cast<size_t>(m)];
  if (place_.is_first()) {
    now.received.values = narrow_all(batch_.inputs, mine);
  } else {
    now.received = receive_activations(place_.comm, place_.ranks.peers(place_.stage - 1, rows, mine));
  }
  const std::vector<uint8_t> wants = now.received.wants();
  now.pass = StagePass(*model_.module, segments_of(mine), recompute() == Recompute::none || backward_follows, model_.trains_elsewhere,
                       has_halves_[static_cast<size_t>(m)] != 0);
  seed_with(generator_, {seed_, call_, m, place_.stage, place_.replica});
  std::vector<at::Tensor> outputs = now.pass.forward(std::move(now.received.values), wants);
  if (place_.is_last()) {
    losses_.push_back(outputs.front().detach());
    now.sent.values.push_back({"", outputs.front().sizes().vec(), outputs.front().scalar_type()});
    now.sent.device = outputs.front().device();
    return;
  }
  const std::vector<Peer> after = place_.ranks.peers(place_.stage + 1, rows, mine);
  now.sent = send_activations(place_.comm, after, {std::move(outputs), now.pass.wanted()}, mine, sends_);
}

void BatchRun::backward(int m) {
  const Rows mine = place_.ranks.share(rows_of(m), place_.comm.rank());
  InFlight now = std::exchange(passes_[static_cast<size_t>(m)], InFlight());
  const TensorSpec& last = now.sent.values.front();
  std::vector<at::Tensor> cotangents =
      place_.is_last() ? std::vector<at::Tensor>{at::full(last.shape, batch_.weight, at::device(now.sent.device).dtype(last.dtype))}
                       : collect_cotangents(place_.comm, now.sent, mine);
  return_cotangents(place_.comm, now.received, now.pass.backward(std::move(cotangents)), mine, sends_);
  if (has_halves_[static_cast<size_t>(m)] != 0) passes_[static_cast<size_t>(m)].pass = std::move(now.pass);
}

void BatchRun::backward_weights(int m) {
  StagePass pass = std::exchange(passes_[static_cast<size_t>(m)].pass, StagePass());
  pass.backward_weights();
}

}  // namespace tw::pipeline
