// SPDX-License-Identifier: Apache-2.0
#include "independent_replicas.hpp"

#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <tw/comm/collectives.hpp>
#include <utility>

namespace tw::train {

IndependentReplicas::IndependentReplicas(const StrategySetup& setup)
    : ranks_(setup.ranks), group_(setup.ranks, setup.replicas.ranks_per_group), part_(setup, group_.data()) {}

void IndependentReplicas::zero_grad() { part_.zero_grad(); }

// Weights the pass so that the mean over the groups' gradients is the gradient of the mean over all samples.
void IndependentReplicas::accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) {
  (void)pass_and_sum(part_.sums(), share, [&] { pass(share.weight * group_.count()); });
}

void IndependentReplicas::raise(Signal word) {
  raised_[static_cast<size_t>(word)] = 1;
  non_finite_ = non_finite_ || word == Signal::non_finite;
}

Outcome IndependentReplicas::outcome(double loss_scale) {
  const at::Tensor flags = at::zeros({2}, at::TensorOptions().dtype(at::kInt));
  auto* const values = flags.mutable_data_ptr<int32_t>();
  values[0] = std::exchange(non_finite_, false) ? 1 : 0;
  values[1] = part_.gradients_finite() ? 0 : 1;
  if (group_.all() != nullptr) allreduce(*group_.all(), flags, ReduceOp::max);
  return outcome_of(values[0] != 0, values[1] == 0, false, loss_scale);
}

Outcome IndependentReplicas::update(double loss_scale) {
  part_.divide_gradients(loss_scale);
  const Outcome here = outcome(loss_scale);
  if (here.non_finite) raised_[static_cast<size_t>(Signal::non_finite)] = 1;
  if (!here.skipped) part_.optimizer().step();
  Outcome outcome = after_step() ? exchange_signals() : Outcome{};
  outcome.skipped = here.skipped;
  outcome.overflow = here.overflow;
  return outcome;
}

Outcome IndependentReplicas::meet() {
  finish();
  return exchange_signals();
}

std::vector<NamedShard> IndependentReplicas::shards() const {
  std::vector<NamedShard> shards = part_.shards();
  for (NamedShard& shard : shards) {
    if (shard.kind == ShardKind::counter) shard.tensor = shard.tensor.to(at::kDouble);  // integers have no mean
    if (shard.tensor.is_floating_point() || shard.tensor.is_complex()) shard.on_reshard = OnReshard::mean;
  }
  append(shards, own_shards());
  return shards;
}

void IndependentReplicas::account(KnownMemory& known) const {
  part_.account(known);
  account_own(known);
}

Outcome IndependentReplicas::exchange_signals() {
  const at::Tensor collected = at::zeros({2}, at::TensorOptions().dtype(at::kInt));
  std::copy(raised_.begin(), raised_.end(), collected.mutable_data_ptr<int32_t>());
  raised_ = {};
  allreduce(ranks_.all, collected, ReduceOp::sum);
  const auto* counts = collected.const_data_ptr<int32_t>();
  return {.non_finite = counts[static_cast<int>(Signal::non_finite)] > 0, .stop = counts[static_cast<int>(Signal::stop)] > 0};
}

}  // namespace tw::train
