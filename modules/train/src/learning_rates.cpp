// SPDX-License-Identifier: Apache-2.0
#include "learning_rates.hpp"

#include <ATen/ops/tensor.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::train {
namespace {

const std::string rates_shard = "trainer/learning_rates";

}  // namespace

LearningRates::LearningRates(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
  for (const auto& group : optimizer.param_groups()) first_.push_back(group.options().get_lr());
  base_ = first_;
}

std::vector<double> LearningRates::without_factor() const {
  std::vector<double> rates = base_;
  for (size_t i = 0; i < std::min(rates.size(), optimizer_.param_groups().size()); ++i) {
    const double rate = optimizer_.param_groups()[i].options().get_lr();
    if (factor_ > 0 && rate != base_[i] * factor_) rates[i] = rate / factor_;
  }
  return rates;
}

double LearningRates::multiply(double factor) {
  auto& groups = optimizer_.param_groups();
  TW_EXPECTS(groups.size() == base_.size(), "the optimizer had ", base_.size(), " parameter groups when the Trainer was made, and has ",
             groups.size(), ": add groups before you make the Trainer");
  base_ = without_factor();
  factor_ = factor;
  for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(base_[i] * factor);
  return base_.front() * factor;
}

void LearningRates::restore() {
  auto& groups = optimizer_.param_groups();
  for (size_t i = 0; i < std::min(groups.size(), first_.size()); ++i) groups[i].options().set_lr(first_[i]);
  base_ = first_;
  factor_ = 1;
}

void LearningRates::keep_in(Progress& progress) const {
  progress.first_rates = first_;
  progress.rates = without_factor();
}

void LearningRates::resume(const Progress& progress) { resume(progress.first_rates, progress.rates); }

NamedShard LearningRates::shard() const {
  std::vector<double> rates = first_;
  const std::vector<double> now = without_factor();
  rates.insert(rates.end(), now.begin(), now.end());
  return whole(rates_shard, at::tensor(rates, at::kDouble), ShardKind::counter);
}

void LearningRates::take_shard(const std::vector<NamedShard>& shards) {
  const auto found = std::ranges::find(shards, rates_shard, &NamedShard::name);
  if (found == shards.end()) return;
  const auto* const rates = found->tensor.const_data_ptr<double>();
  const int64_t groups = found->tensor.numel() / 2;
  resume({rates, rates + groups}, {rates + groups, rates + 2 * groups});
}

void LearningRates::resume(const std::vector<double>& first, const std::vector<double>& base) {
  if (first != first_) return;
  base_ = base;
  for (size_t i = 0; i < base_.size(); ++i) optimizer_.param_groups()[i].options().set_lr(base_[i] * factor_);
}

}  // namespace tw::train
