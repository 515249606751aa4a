// SPDX-License-Identifier: Apache-2.0
#include "learning_rates.hpp"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::train {

LearningRates::LearningRates(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
  for (const auto& group : optimizer.param_groups()) first_.push_back(group.options().get_lr());
  base_ = first_;
}

std::vector<double> LearningRates::now() const {
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
             groups.size(), ": add groups before");
  base_ = now();
  factor_ = factor;
  for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(base_[i] * factor);
  return base_.front() * factor;
}

void LearningRates::put_back() {
  auto& groups = optimizer_.param_groups();
  for (size_t i = 0; i < std::min(groups.size(), first_.size()); ++i) groups[i].options().set_lr(first_[i]);
  base_ = first_;
  factor_ = 1;
}

void LearningRates::keep_in(Progress& progress) const {
  progress.first_rates = first_;
  progress.rates = now();
}

void LearningRates::resume(const Progress& progress) {
  if (progress.first_rates != first_) return;
  base_ = progress.rates;
  for (size_t i = 0; i < base_.size(); ++i) optimizer_.param_groups()[i].options().set_lr(base_[i]);
}

}  // namespace tw::train
