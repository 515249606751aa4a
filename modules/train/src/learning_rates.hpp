// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/named_shard.hpp>
#include <tw/train/learning_rate.hpp>
#include <vector>

#include "progress.hpp"

namespace torch::optim {
class Optimizer;
}

namespace tw::train {

/// The learning rates of an optimizer's groups: those that the user or a hook has set, times the schedule's factor. Local.
class LearningRates {
 public:
  /// @param optimizer borrowed
  explicit LearningRates(torch::optim::Optimizer& optimizer);

  /// Sets the rates to the base rates times `factor`. A rate that a hook has set since the last call becomes a base rate. @return the first group's
  /// rate
  /// @throws ContractError if groups were added
  double multiply(double factor);
  /// Restores the rates that the optimizer had at construction, for another trainer.
  void restore();

  void keep_in(Progress& progress) const;
  /// Continues with the rates that hooks had set, unless the optimizer's initial rates differ from those of the run to be resumed.
  void resume(const Progress& progress);
  /// The same for a run that moves to other ranks between two epochs.
  NamedShard shard() const;
  void take_shard(const std::vector<NamedShard>& shards);

 private:
  /// The rates without the factor of the schedule, including rates that hooks have set since the last call of multiply().
  std::vector<double> without_factor() const;
  void resume(const std::vector<double>& first, const std::vector<double>& base);

  torch::optim::Optimizer& optimizer_;
  std::vector<double> first_;
  std::vector<double> base_;
  double factor_ = 1;  // the last factor of multiply()
};

}  // namespace tw::train
