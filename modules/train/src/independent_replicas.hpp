// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>

#include "strategies.hpp"

namespace tw::train {

/// Replicas of the model train independently, and meet when the strategy decides. The ranks that hold a replica together make each update alike.
class IndependentReplicas : public Strategy {
 public:
  explicit IndependentReplicas(const StrategySetup& setup);

  void zero_grad() override;
  void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) override;
  void raise(Signal word) override;
  double clip_gradients(double max_norm, double loss_scale) override;
  Outcome update(double loss_scale) override;
  Outcome meet() override;
  torch::optim::Optimizer& optimizer() override { return optimizer_; }
  /// Each rank's own.
  std::vector<NamedShard> shards() const override;
  void prepare(const std::vector<std::string>& names) override { state_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { state_.apply(shards); }
  void account(KnownMemory& known) const override;

 protected:
  /// Called after this rank's optimizer step. @return whether the ranks have met
  virtual bool after_step() = 0;
  /// Makes the parameters equal on all ranks.
  virtual void finish() = 0;
  /// Accounts for the strategy's own memory: everything but the model and the optimizer.
  virtual void account_own(KnownMemory& known) const = 0;
  /// State of the strategy itself.
  virtual std::vector<NamedShard> own_shards() const = 0;

 private:
  bool gradients_finite() const;
  /// Of this replica. Collective over the ranks that hold it.
  Outcome outcome(double loss_scale);
  Outcome exchange_signals();

  const Ranks& ranks_;
  const Model& model_;
  ModelPartsList parts_;  // empty if each rank has a whole replica
  torch::optim::Optimizer& optimizer_;
  OptimizerState state_;
  std::array<int32_t, 2> raised_{};  // signals raised since the ranks last met
  bool non_finite_ = false;          // signalled in this update
};

}  // namespace tw::train
