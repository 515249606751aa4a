// SPDX-License-Identifier: Apache-2.0
#include "loss_scaling.hpp"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <tw/comm/collectives.hpp>

#include "strategy.hpp"

namespace tw::train {
namespace {

const std::string name_of_shard = "trainer/loss_scaling";

}  // namespace

LossScaling::LossScaling(const PrecisionOptions& options) {
  if (options.scales()) scaler_.emplace(options.loss_scale);
}

void LossScaling::update(const Outcome& outcome) noexcept {
  if (!scaler_) return;
  if (outcome.overflow) ++overflows_;
  if (outcome.overflow || !outcome.skipped) scaler_->update(!outcome.overflow);
}

int64_t LossScaling::max_overflows(const Communicator& comm) const {
  if (!scaler_) return 0;
  const at::Tensor most = at::scalar_tensor(overflows_, at::TensorOptions().dtype(at::kLong));
  allreduce(comm, most, ReduceOp::max);
  return most.item<int64_t>();
}

std::optional<LossScaling::State> LossScaling::state() const {
  if (!scaler_) return std::nullopt;
  return State{scaler_->scale(), static_cast<double>(scaler_->good_updates()), static_cast<double>(overflows_)};
}

void LossScaling::restore(const Progress& progress, int rank, int ranks, bool same_layout) {
  const std::vector<double>& scales = progress.loss_scales;
  if (!scaler_ || scales.empty()) return;
  const bool same = same_layout && static_cast<int>(scales.size()) == ranks;
  const auto i = same ? static_cast<size_t>(rank) : static_cast<size_t>(std::ranges::min_element(scales) - scales.begin());
  restore({scales[i], progress.good_updates.at(i), progress.overflows.at(i)});
}

void LossScaling::restore(const State& state) noexcept {
  scaler_->restore(state.scale, static_cast<int64_t>(state.good_updates));
  overflows_ = static_cast<int64_t>(state.overflows);
}

std::optional<NamedShard> LossScaling::shard() const {
  const auto now = state();
  if (!now) return std::nullopt;
  const std::vector<double> numbers{now->scale, now->good_updates, now->overflows};
  return whole(name_of_shard, at::tensor(numbers, at::kDouble), ShardKind::counter);
}

void LossScaling::take_shard(const std::vector<NamedShard>& shards) {
  const auto found = std::ranges::find(shards, name_of_shard, &NamedShard::name);
  if (!scaler_ || found == shards.end()) return;
  const auto number = [&](int64_t i) { return found->tensor[i].item<double>(); };
  restore({number(0), number(1), number(2)});
}

}  // namespace tw::train
