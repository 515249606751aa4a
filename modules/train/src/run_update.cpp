// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/base/random.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/data_parallel/idle_pass.hpp>
#include <tw/gradients/loss.hpp>
#include <tw/tensor/device_memory.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

#include "evaluate.hpp"
#include "run.hpp"
#include "signals.hpp"

namespace tw::train {
namespace {

constexpr int64_t max_restores = 3;

// Runs a pass. If the model fails on fewer samples than usual, as batch norms do on one, the error explains that. @param in_hook tells whether a hook
// runs
template <class Pass, class InHook, class Where>
void run_on(int64_t samples, int64_t usual, const InHook& in_hook, const Where& where, const Pass& pass) {
  const auto explained = [&](const std::string& what) {
    return Error(concat(where(), ", where it usually has ", usual, ": ", what,
                        "\nIf the model cannot train on this few samples, skip an epoch's last ",
                        "update (drop_last = true), or choose a batch size that leaves no such remainder"));
  };
  const bool few = samples > 0 && samples < usual;
  try {
    pass();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    if (few && !in_hook()) throw explained(error.what_without_backtrace());
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // from the TorchScript interpreter
    if (few && !in_hook()) throw explained(error.what());
    throw;
  }
}

// The loss of a pass over samples that do not count; their real loss may be NaN.
at::Tensor without_effect(const at::Tensor& outputs, const at::Tensor& /*targets*/) { return zero_loss({outputs}); }

// The same loss, but its gradients are not finite if it is not. Gradients are checked anyway, so the host need not wait for the loss.
at::Tensor poison_if_non_finite(const at::Tensor& loss) { return loss * (loss.detach() * 0 + 1); }

}  // namespace

// One step of the optimizer, on the samples of `accumulation` batches.
void Trainer::Run::update() {
  const int64_t samples = std::min(progress_.global_batch, state_->epoch_samples - progress_.consumed);
  strategy_->zero_grad();
  forget_batch();
  if (counts_memory()) {
    watch_memory("forward");
  } else {
    memory_->rest();
  }
  state_->learning_rate = rates_->multiply(learning_rate_factor(options_.schedule, length_, progress_.step));
  const TensorSnapshot buffers(model_.buffers);
  const int64_t end = progress_.consumed + samples;
  if (objective_.weight) {
    std::vector<Pass> passes;
    while (loader_->consumed() < end) passes.push_back(next_pass(static_cast<int64_t>(passes.size()), end));
    const double weight = weigh(passes, samples);
    for (Pass& pass : passes) backward(std::move(pass), weight);
  } else {
    for (int64_t i = 0; loader_->consumed() < end; ++i) backward(next_pass(i, end), static_cast<double>(samples));
  }
  notify(&Hook::on_backward);
  if (options_.clip.norm > 0) (void)strategy_->clip_gradients(options_.clip.norm, scaling_.scale());
  progress_.consumed = loader_->consumed();
  const auto begin = std::chrono::steady_clock::now();
  memory_->phase("update");
  const Outcome outcome = strategy_->update(scaling_.scale());
  scaling_.update(outcome);
  span("update", begin);
  const bool finite = read_losses();
  const bool seems_cured = !outcome.skipped || outcome.overflow;
  if (!finite && seems_cured && !outcome.non_finite) strategy_->raise(Signal::non_finite);  // received with the next update
  if (outcome.skipped) {
    if (!outcome.overflow) suspect_.confirm();
    buffers.restore();  // in any case: ranks that meet rarely checkpoint before they react
  }
  count_memory();
  if (tracing() && (samples == progress_.global_batch || of_whole_step_.empty())) {
    whole_step_ = progress_.step;
    of_whole_step_ = memory_->samples();
  }
  state_->step = ++progress_.step;
  state_->samples = progress_.consumed;
  if (outcome.non_finite) react();
  notify(&Hook::on_update);
  act_on(outcome);
}

// Frees the last batch's memory for the next one.
void Trainer::Run::forget_batch() {
  state_->outputs = state_->loss = at::Tensor();
  state_->batch = Batch();
}

// Whether to count this step: often enough to notice a new peak, seldom enough to be free even if updates take microseconds.
bool Trainer::Run::counts_memory() const {
  constexpr int64_t of_run = 64;
  constexpr int64_t of_epoch = 8;
  const int64_t in_epoch = progress_.consumed / progress_.global_batch;
  return tracing() || progress_.step - first_step_ < of_run || in_epoch < of_epoch;
}

// Loads the next batch. @param end number of the epoch's samples that have been read after the update's last pass
Pass Trainer::Run::next_pass(int64_t index, int64_t end) {
  const auto begin = std::chrono::steady_clock::now();
  forget_batch();
  Pass pass{.index = index, .number = progress_.step * options_.accumulation + index, .batch = loader_->next().value()};
  span("data", begin);
  pass.seed = seed_of_pass(options_.seed, pass.number * ranks_.samples.size() + ranks_.samples.rank());
  pass.last = loader_->consumed() >= end;
  const int64_t here = pass.batch.size();
  state_->batch = pass.batch;
  if (!hooks_.empty()) torch::manual_seed(derived_seed(pass.seed, 1));  // so that hooks' draws do not change the model's
  notify(&Hook::on_sample);
  TW_EXPECTS(state_->batch.size() == here, "a hook has changed the number of a batch's samples from ", here, " to ", state_->batch.size(),
             ", but the loss is weighted by this number: samples that do not count need a weight in the loss, or must be left out of the data set");
  pass.batch = state_->batch;
  pass.weight = static_cast<double>(here);
  return pass;
}

// The weight of each pass's targets, from the ranks that read them. Collective over the ranks that hold one model.
std::vector<double> Trainer::Run::weights_of(const std::vector<Pass>& passes) const {
  const auto count = static_cast<int64_t>(passes.size());
  const at::Tensor largest = at::full({2, count}, -std::numeric_limits<double>::infinity(), at::kDouble);  // of the weights, and of their negatives
  auto* const weights = largest.mutable_data_ptr<double>();
  for (int64_t i = 0; i < count && model_.trained->needs_samples(); ++i) {
    const Batch& batch = passes[static_cast<size_t>(i)].batch;
    weights[i] = batch.size() > 0 ? objective_.weight(batch.targets) : 0;
    weights[count + i] = -weights[i];
    TW_EXPECTS(std::isfinite(weights[i]) && weights[i] >= 0, "Objective::weight must return a finite number, at least 0, got ", weights[i]);
  }
  if (ranks_.parts != nullptr) allreduce(*ranks_.parts, largest, ReduceOp::max);
  for (int64_t i = 0; i < count; ++i) {
    constexpr double rounding = 1e-5;  // of sums of class weights, on devices that differ
    const double least = -weights[count + i];
    TW_EXPECTS(weights[i] - least <= rounding * weights[i], "ranks that hold one model have targets of weights ", least, " and ", weights[i],
               " for the same samples: a hook must make the same changes to targets on all of these ranks");
  }
  return {weights, weights + count};
}

// Replaces the passes' weights by those of their targets. @param samples of the update, over all ranks @return what the passes' weights are divided
// by. Collective over the ranks that hold one model, and over those that sum gradients
double Trainer::Run::weigh(std::vector<Pass>& passes, int64_t samples) {
  const std::vector<double> weights = weights_of(passes);
  double counted = 0;
  double rows = 0;
  for (size_t i = 0; i < passes.size(); ++i) {
    passes[i].weight = weights[i];
    counted += weights[i];
    rows += static_cast<double>(passes[i].batch.size());
  }
  std::vector<double> sums{counted, rows};  // over the ranks whose gradients are summed
  if (const Communicator* ranks = strategy_->summing_ranks()) sums = sum_over_ranks(*ranks, std::move(sums));
  if (sums[0] == 0) return 1;  // no target counts: all passes weigh 0
  // Replicas that meet rarely weigh only a part of the rows; when they meet, their means count by rows.
  const double weight_of_a_row = sums[0] / sums[1];
  return weight_of_a_row * static_cast<double>(samples);
}

// Accumulates this rank's gradient of a batch's loss. @param weight of the update
void Trainer::Run::backward(Pass pass, double weight) {
  auto begin = std::chrono::steady_clock::now();
  if (pass.index > 0) memory_->phase("forward");
  state_->outputs = state_->loss = at::Tensor();
  state_->batch = std::move(pass.batch);
  const int64_t here = state_->batch.size();
  torch::manual_seed(pass.seed);
  bool in_hook = false;
  // Between forward and backward pass, or after both: a signal raised here travels with the gradients.
  const auto on_loss = [&](const at::Tensor& outputs, at::Tensor& loss) {
    state_->outputs = outputs;
    state_->loss = loss;
    unread_.push_back({PendingScalar(loss), state_->batch, pass.weight, pass.seed});
    const bool known = !is_on_accelerator(loss);
    if (known && !read_losses()) strategy_->raise(Signal::non_finite);
    begin = span("forward", begin);
    memory_->phase("backward");
    const at::Tensor made = state_->loss;
    in_hook = true;
    split_draws_.leave_out([&] { notify(&Hook::on_forward); });
    in_hook = false;
    TW_EXPECTS(state_->loss.is_same(made) || model_.trained->makes_one_backward_pass(),
               "a hook has replaced State::loss, but this model has already made its backward passes: change Objective::loss instead");
    loss = known ? state_->loss : poison_if_non_finite(state_->loss);
    if (!Signals::caught().empty() || !state_->stop_reason.empty()) strategy_->raise(Signal::stop);
  };
  const MicroBatchShare share{
      .weight = pass.weight / weight, .last = pass.last, .one_backward = (here > 0 || passes_in_step()) && model_.trained->makes_one_backward_pass()};
  const int64_t usual = progress_.global_batch / options_.accumulation / ranks_.samples.size();  // lower bound
  const auto where = [&] { return concat("pass ", pass.index, " of step ", progress_.step, ", over ", here, here == 1 ? " sample" : " samples"); };
  const auto pass_over_batch = [&](double factor) {
    if (here == 0 && !passes_in_step()) {
      at::Tensor nothing = at::zeros({}, model_.device());
      return on_loss({}, nothing);
    }
    std::optional<IdlePass> idle;
    if (here == 0) idle.emplace(model_.buffers);
    const Batch batch = here == 0 ? first_samples(train_, model_.device()) : state_->batch;
    const LossFunction loss = here == 0 ? without_effect : loss_of_pass(here, pass.weight);
    const auto run = [&] {
      model_.trained->pass({batch.inputs, batch.targets, loss, factor * scaling_.scale(), pass.number, progress_.epoch, on_loss});
    };
    const bool is_split = ranks_.slices != nullptr && here > 0;
    run_on(here, usual, [&] { return in_hook; }, where, [&] { is_split ? split_draws_.run(*ranks_.slices, 0, run) : run(); });
  };
  in_device_memory(
      [&] { strategy_->accumulate(share, pass_over_batch); },
      [&] { return concat(where(), "; use fewer samples at a time (batch_size, accumulation), or split the model (mesh.stage, mesh.layer)"); });
  span("backward", begin);
}

// Whether ranks without samples make passes over samples that do not count.
bool Trainer::Run::passes_in_step() const { return strategy_->ranks_pass_in_step() || model_.exchanges_in_passes; }

// Reads the losses of the passes since the last call. On a device, call it after the update has synchronized the host anyway.
bool Trainer::Run::read_losses() {
  bool all_finite = true;
  for (const auto& [loss, batch, weight, seed] : std::exchange(unread_, {})) {
    state_->mean_loss = batch.size() > 0 ? loss.value(ranks_.samples) : 0.0;
    const bool finite = std::isfinite(state_->mean_loss);
    suspect_.note(batch, seed, finite);
    if (finite) loss_.add(state_->mean_loss, weight);
    all_finite = all_finite && finite;
  }
  return all_finite;
}

// The loss of a pass. A model may split the pass into parts, which it weights by their samples. @param samples, weight of the pass
LossFunction Trainer::Run::loss_of_pass(int64_t samples, double weight) const {
  if (!objective_.weight) return objective_.loss;
  return [this, samples, weight](const at::Tensor& outputs, const at::Tensor& targets) {
    const bool is_whole = targets.size(0) == samples;
    const double part = is_whole ? weight : objective_.weight(targets);
    if (part == 0) return zero_loss({outputs});  // its mean is not a number
    const at::Tensor mean = objective_.loss(outputs, targets);
    return is_whole ? mean : mean * (part / weight * static_cast<double>(samples) / static_cast<double>(targets.size(0)));
  };
}

// Reacts to non-finite gradients on some rank.
void Trainer::Run::react() {
  std::optional<Batch> instead;
  if (passes_in_step()) instead = first_samples(train_, model_.device());
  const std::string where = suspect_.examine(ranks_.all, model_, objective_, instead);
  const auto say = [&](const char* reaction) {
    if (ranks_.all.rank() == 0) log_warning("step ", progress_.step, ": ", where, "; ", reaction);
  };
  if (snapshots_) snapshots_->settle();
  const bool may_restore = options_.non_finite == NonFinite::restore && snapshots_ && progress_.restores < max_restores;
  const auto newest = may_restore ? snapshots_->newest() : std::nullopt;
  if (options_.non_finite == NonFinite::skip) {
    ++progress_.skipped;
    say("this update is skipped");
  } else if (newest) {
    say("restoring the parameters of the newest checkpoint");
    (void)snapshots_->restore(newest->step, *strategy_);
    (void)strategy_->meet();  // again: a checkpoint in the middle of a period holds different parameters for each rank
    ++progress_.skipped;
    ++progress_.restores;
  } else {
    say("the run ends here");
    stopped_because_ = concat("step ", progress_.step, ": ", where);
    diverged_ = true;
  }
}

void Trainer::Run::act_on(const Outcome& outcome) {
  if (outcome.stop && !stopped()) stopped_because_ = reason_to_stop();
}

std::string Trainer::Run::reason_to_stop() {
  const std::string signal = Signals::caught();
  for (const std::string& reason : allgather_strings(ranks_.all, signal.empty() ? state_->stop_reason : signal)) {
    if (!reason.empty()) return reason;
  }
  return "stopped";
}

}  // namespace tw::train
