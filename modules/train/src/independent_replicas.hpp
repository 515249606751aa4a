// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>

#include "replica_group.hpp"
#include "trained_part.hpp"

namespace tw::train {

/// Groups of ranks train independently, and meet when the strategy decides. The ranks of a group make each update together.
class IndependentReplicas : public Strategy {
 public:
  explicit IndependentReplicas(const StrategySetup& setup);

  bool ranks_pass_in_step() const override { return part_.sums().gathers_in_passes(); }
  const Communicator* summing_ranks() const override { return group_.samples(); }
  int replicas() const override { return group_.count(); }
  void zero_grad() override;
  void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) override;
  void raise(Signal word) override;
  double clip_gradients(double max_norm, double loss_scale) override { return part_.clip_gradients(max_norm, loss_scale); }
  Outcome update(double loss_scale) override;
  Outcome meet() override;
  torch::optim::Optimizer& optimizer() override { return part_.optimizer(); }
  /// The shards of this rank's own replica.
  std::vector<NamedShard> shards() const override;
  void prepare(const std::vector<std::string>& names) override { part_.prepare(names); }
  void apply(const std::vector<NamedShard>& shards) override { part_.apply(shards); }
  void account(KnownMemory& known) const override;
  std::vector<NamedShard> exported_shards() const override { return part_.exported_shards(); }

 protected:
  /// Called after this rank's optimizer step. @return whether the ranks have met
  virtual bool after_step() = 0;
  /// Makes the parameters equal on all ranks.
  virtual void finish() = 0;
  /// Accounts for the strategy's own memory: everything but the model and the optimizer.
  virtual void account_own(KnownMemory& known) const = 0;
  /// State of the strategy itself.
  virtual std::vector<NamedShard> own_shards() const = 0;

  TrainedPart& part() noexcept { return part_; }
  const TrainedPart& part() const noexcept { return part_; }

 private:
  /// The outcome of this group's update. Collective over the group.
  Outcome outcome(double loss_scale);
  Outcome exchange_signals();

  const Ranks& ranks_;
  ReplicaGroup group_;
  TrainedPart part_;
  std::array<int32_t, 2> raised_{};  // signals raised since the ranks last met
  bool non_finite_ = false;          // signalled in this update
};

}  // namespace tw::train
