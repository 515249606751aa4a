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
    : ranks_(setup.ranks), model_(setup.model), optimizer_(setup.optimizer), state_(state_of(setup.optimizer, setup.model)) {
  if (ranks_.parts != nullptr) parts_ = {model_parts(*ranks_.parts, *model_.trained)};
}

void IndependentReplicas::zero_grad() { optimizer_.zero_grad(); }

// Weights the pass so that the mean over the ranks' gradients is the gradient of the mean over all samples.
void IndependentReplicas::accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) {
  pass(static_cast<double>(share.here * ranks_.data.size()) / static_cast<double>(share.samples));
}

void IndependentReplicas::raise(Signal word) {
  raised_[static_cast<size_t>(word)] = 1;
  non_finite_ = non_finite_ || word == Signal::non_finite;
}

double IndependentReplicas::clip_gradients(double max_norm, double loss_scale) {
  return clip_gradient_norm(model_.parameters, parts_, max_norm * loss_scale) / loss_scale;
}

Outcome IndependentReplicas::outcome(double loss_scale) {
  const at::Tensor flags = at::zeros({2}, at::TensorOptions().dtype(at::kInt));
  auto* const values = flags.mutable_data_ptr<int32_t>();
  values[0] = std::exchange(non_finite_, false) ? 1 : 0;
  values[1] = gradients_finite() ? 0 : 1;
  if (ranks_.parts != nullptr) allreduce(*ranks_.parts, flags, ReduceOp::max);
  return outcome_of(values[0] != 0, values[1] == 0, false, loss_scale);
}

Outcome IndependentReplicas::update(double loss_scale) {
  divide_gradients(model_.parameters, loss_scale);
  const Outcome here = outcome(loss_scale);
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
  allreduce(ranks_.all, heard, ReduceOp::sum);
  const auto* counts = heard.const_data_ptr<int32_t>();
  return {.non_finite = counts[static_cast<int>(Signal::non_finite)] > 0, .stop = counts[static_cast<int>(Signal::stop)] > 0};
}

}  // namespace tw::train
