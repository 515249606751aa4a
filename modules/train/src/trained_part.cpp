// SPDX-License-Identifier: Apache-2.0
#include "trained_part.hpp"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/gradients/sharded_optimizer.hpp>

#include "model_shards.hpp"
#include "non_finite.hpp"

namespace tw::train {
namespace {

std::vector<NamedTensor> trained(std::vector<NamedTensor> parameters) {
  std::erase_if(parameters, [](const NamedTensor& each) { return !each.tensor.requires_grad(); });
  return parameters;
}

std::unique_ptr<GradientSums> make_sums(const StrategySetup& setup, const Communicator* data, std::shared_ptr<Compressor> compressor) {
  const Ranks& ranks = setup.ranks;
  if (data != &ranks.data) synchronize(ranks.data, setup.model.all_tensors());
  if (ranks.shard == nullptr) {
    ReducerOptions options = reducer_options(setup);
    options.compressor = std::move(compressor);
    return whole_parameters({.data = data, .model = ranks.parts}, *setup.model.trained, std::move(options));
  }
  for (const NamedTensor& each : setup.model.parameters) each.tensor.mutable_grad() = at::Tensor();  // of an earlier run; nothing else drops them
  // Stages, and layers in parallel, use parameters many times in an update.
  const int64_t resident = setup.model.is_in_parts() ? std::numeric_limits<int64_t>::max() : setup.shard.resident_bytes;
  return sharded_parameters({.data = data != nullptr && data->size() > 1 ? data : nullptr, .shard = ranks.shard, .model = ranks.parts},
                            *setup.model.trained,
                            {.options = {.reduction = Reduction::sum,
                                         .unit_bytes = setup.shard.unit_bytes,
                                         .prefetch_units = setup.shard.prefetch_units,
                                         .resident_bytes = resident,
                                         .one_copy_per_node = setup.shard.one_copy_per_node,
                                         .check_finite = true}});
}

}  // namespace

TrainedPart::TrainedPart(const StrategySetup& setup, const Communicator* data, std::shared_ptr<Compressor> compressor)
    : ranks_(setup.ranks),
      model_(setup.model),
      is_sharded_(setup.ranks.shard != nullptr),
      counted_(counted_here(setup.ranks.parts, setup.model.trained->trained_tensors())),
      sums_(make_sums(setup, data, std::move(compressor))),
      tensors_(sums_->optimized()),
      named_(trained(setup.model.parameters)),
      optimizer_(&setup.optimizer) {
  for (const OptimizedTensor& each : tensors_) {
    if (has_guarded_gradient(each.tensor)) guard_gradient(each.tensor, "State::clip_gradient_norm() in a hook, or Options::clip");
  }
  if (!is_sharded_) {
    state_.emplace(state_of(setup.optimizer, model_));
    return;
  }
  TW_ASSERT(named_.size() == tensors_.size());
  const auto make = optimizer_like(setup.optimizer, named_);
  for (size_t i = 0; i < named_.size(); ++i) named_[i].tensor = tensors_[i].tensor;
  of_slices_ = make(named_);
  optimizer_ = of_slices_.get();
  state_.emplace(*of_slices_, tensors_);
}

void TrainedPart::zero_grad() {
  optimizer_->zero_grad();
  for (const OptimizedTensor& each : tensors_) each.tensor.mutable_grad() = at::Tensor();  // also those that the optimizer does not have
}

std::vector<OptimizedTensor> TrainedPart::counted() const {
  std::vector<OptimizedTensor> counted;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (counted_[i] != 0) counted.push_back(tensors_[i]);
  }
  return counted;
}

bool TrainedPart::gradients_finite() const {
  std::vector<at::Tensor> gradients;
  for (const OptimizedTensor& each : tensors_) gradients.push_back(each.tensor.grad());
  return are_finite(gradients);
}

void TrainedPart::divide_gradients(double by) { train::divide_gradients(named_, by); }

double TrainedPart::clip_gradients(double max_norm, double loss_scale) {
  GradientShare share;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& gradient = tensors_[i].tensor.grad();
    if (gradient.defined()) (counted_[i] != 0 ? share.counted : share.others).push_back(gradient);
  }
  if (ranks_.replica != nullptr) share.sum_over.push_back(ranks_.replica);
  return clip_gradient_norm(share, max_norm * loss_scale) / loss_scale;
}

std::vector<NamedShard> TrainedPart::shards() const {
  std::vector<NamedShard> shards = sums_->parameters();
  append(shards, state_->shards());
  return shards;
}

std::vector<NamedShard> TrainedPart::exported_shards() const {
  if (!is_sharded_) return model_.trained->exported_shards();
  std::vector<NamedShard> exported = sums_->parameters();
  append(exported, buffer_shards(model_));
  return exported;
}

void TrainedPart::apply(const std::vector<NamedShard>& shards) {
  state_->apply(shards);
  sums_->parameters_written();
}

void TrainedPart::account(KnownMemory& known) const {
  sums_->account(known);
  account_optimizer(known, state_->shards());
}

}  // namespace tw::train
