// SPDX-License-Identifier: Apache-2.0
#include "independent_replicas.hpp"

#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/clipping.hpp>
#include <utility>

#include "non_finite.hpp"

namespace tw::train {

IndependentReplicas::IndependentReplicas(const StrategySetup& setup)
    : comm_(setup.ranks.data), model_(setup.model), optimizer_(setup.optimizer), state_(state_of(setup.optimizer, setup.model)) {}

void IndependentReplicas::zero_grad() { optimizer_.zero_grad(); }

// Weights the pass so that the mean over the ranks' gradients is the gradient of the mean over all samples.
void IndependentReplicas::accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) {
  pass(static_cast<double>(share.here * comm_.size()) / static_cast<double>(share.samples));
}

void IndependentReplicas::raise(Signal word) {
  raised_[static_cast<size_t>(word)] = 1;
  non_finite_ = non_finite_ || word == Signal::non_finite;
}

// This rank's own gradients; some may be undefined.
double IndependentReplicas::clip_gradients(double max_norm, double loss_scale) {
  GradientShare share;
  for (const NamedTensor& each : model_.parameters) {
    if (each.tensor.grad().defined()) share.counted.push_back(each.tensor.grad());
  }
  return clip_gradient_norm(share, max_norm * loss_scale) / loss_scale;
}

Outcome IndependentReplicas::update(double loss_scale) {
  divide_gradients(model_.parameters, loss_scale);
  const Outcome here = outcome_of(std::exchange(non_finite_, false), gradients_finite(), false, loss_scale);
  if (here.non_finite) raised_[static_cast<size_t>(Signal::non_finite)] = 1;
  if (!here.left_out) optimizer_.step();
  Outcome outcome = after_step() ? exchange_signals() : Outcome{};
  outcome.left_out = here.left_out;
  outcome.overflow = here.overflow;
  return outcome;
}

Outcome IndependentReplicas::meet() {
  finish();
  return exchange_signals();
}

std::vector<NamedShard> IndependentReplicas::shards() const {
  std::vector<NamedShard> shards = parameter_shards(model_);
  append(shards, state_.shards());
  for (NamedShard& shard : shards) {
    if (shard.kind == ShardKind::counter) shard.tensor = shard.tensor.to(at::kDouble);  // integers have no mean
    shard.on_reshard = OnReshard::mean;
  }
  append(shards, own_shards());
  return shards;
}

void IndependentReplicas::account(KnownMemory& known) const {
  account_parameters(known, model_.parameters);
  account_optimizer(known, state_.shards());
  account_own(known);
}

bool IndependentReplicas::gradients_finite() const {
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : model_.parameters) gradients.push_back(parameter.tensor.grad());
  return are_finite(gradients);
}

Outcome IndependentReplicas::exchange_signals() {
  const at::Tensor heard = at::zeros({2}, at::TensorOptions().dtype(at::kInt));
  std::copy(raised_.begin(), raised_.end(), heard.mutable_data_ptr<int32_t>());
  raised_ = {};
  allreduce(comm_, heard, ReduceOp::sum);
  const auto* counts = heard.const_data_ptr<int32_t>();
  return {.non_finite = counts[static_cast<int>(Signal::non_finite)] > 0, .stop = counts[static_cast<int>(Signal::stop)] > 0};
}

}  // namespace tw::train
