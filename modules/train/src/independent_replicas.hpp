// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>

#include "strategies.hpp"

namespace tw::train {

/// The ranks train alone, and meet when the strategy says so.
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
  /// Between the backward pass and the optimizer's step.
  /// @return whether the ranks have met
  virtual bool after_step() = 0;
  /// Makes the ranks' parameters one.
  virtual void finish() = 0;
  /// Of what the strategy has beside the model and the optimizer.
  virtual void account_own(KnownMemory& known) const = 0;
  /// What the strategy remembers.
  virtual std::vector<NamedShard> own_shards() const = 0;

 private:
  bool gradients_finite() const;
  Outcome exchange_signals();

  const Communicator& comm_;
  const Model& model_;
  torch::optim::Optimizer& optimizer_;
  OptimizerState state_;
  std::array<int32_t, 2> said_{};  // since the ranks last met
  bool trouble_ = false;           // in this update
};

}  // namespace tw::train
