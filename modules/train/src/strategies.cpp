// SPDX-License-Identifier: Apache-2.0
#include "strategies.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <tw/base/log.hpp>
#include <tw/gradients/part_gradients.hpp>

namespace tw::train {
namespace {

/// Drops an arrival order recorded for other gradients, i.e. with other layers frozen.
std::vector<int64_t> usable(const Communicator& comm, const std::vector<int64_t>& order, const Model& model) {
  if (model.is_in_parts()) return {};
  const auto trained = std::count_if(model.parameters.begin(), model.parameters.end(), [](const NamedTensor& p) { return p.tensor.requires_grad(); });
  if (order.empty() || order.size() + model.sparse.size() == static_cast<size_t>(trained)) return order;
  if (comm.rank() == 0) log_warning("the run to be resumed trained other parameters: the order in which gradients arrive is measured again");
  return {};
}

}  // namespace

ReducerOptions reducer_options(const StrategySetup& setup) {
  return {.reduction = Reduction::sum,
          .check_finite = true,
          .arrival_order = usable(setup.ranks.samples, setup.arrival_order, setup.model),
          .on_bucket = [on_communication = setup.on_communication](int64_t bucket, auto begin, auto end) {
            if (on_communication) on_communication("all-reduce", bucket, begin, end);
          }};
}

// Sharded parameters have no memory for gradients that are not reduced, so every backward pass reduces. If a pass is not one backward pass, whole
// gradients add up until the last pass has ended.
bool pass_and_sum(GradientSums& sums, const MicroBatchShare& share, const std::function<void()>& pass) {
  const bool sums_in_pass = share.one_backward && (share.last || sums.gathers_in_passes());
  {
    const auto held = sums_in_pass ? nullptr : sums.hold();
    pass();
  }
  if (!sums_in_pass && share.last) sums.join();
  return sums_in_pass || share.last;
}

void append(std::vector<NamedShard>& shards, std::vector<NamedShard> more) {
  shards.insert(shards.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void divide_gradients(const std::vector<NamedTensor>& parameters, double by) {
  if (by == 1) return;
  const at::NoGradGuard no_grad;
  for (const NamedTensor& each : parameters) {
    if (each.tensor.grad().defined()) each.tensor.mutable_grad().div_(by);
  }
}

void account_optimizer(KnownMemory& known, const std::vector<NamedShard>& shards) {
  for (const NamedShard& shard : shards) {
    if (shard.kind == ShardKind::optimizer) known.add(MemoryUse::optimizer, shard.tensor);
  }
}

OptimizerState state_of(torch::optim::Optimizer& optimizer, const Model& model) {
  if (model.is_in_parts()) return {optimizer, model.trained->optimized_tensors()};
  return {optimizer, model.parameters};
}

}  // namespace tw::train
