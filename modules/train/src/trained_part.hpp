// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/state/optimizer_state.hpp>

#include "strategies.hpp"

namespace tw::train {

/// The part of the model that a rank trains: its parameters or, along `shard`, its slices of them; the sums of their gradients; and their optimizer.
class TrainedPart {
 public:
  /// Collective. @param data ranks along `data` that sum gradients with this one; null: there are none. @param compressor of gradients, or null
  TrainedPart(const StrategySetup& setup, const Communicator* data, std::shared_ptr<Compressor> compressor = nullptr);

  GradientSums& sums() const noexcept { return *sums_; }
  torch::optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  /// Drops all gradients of this part.
  void zero_grad();
  /// The tensors that the optimizer updates, and their places in the model.
  const std::vector<OptimizedTensor>& tensors() const noexcept { return tensors_; }
  /// Those of tensors() whose elements count on this rank: if several ranks of a replica have a tensor, it counts on the first of them.
  std::vector<OptimizedTensor> counted() const;
  /// The tensors that the optimizer updates, by the names of the parameters.
  const std::vector<NamedTensor>& named() const noexcept { return named_; }
  /// Whether this rank has all of the model.
  bool is_whole() const noexcept { return !is_sharded_ && !model_.is_in_parts(); }
  bool is_sharded() const noexcept { return is_sharded_; }

  bool gradients_finite() const;
  void divide_gradients(double by);
  /// See Strategy::clip_gradients(). Collective over the ranks that hold a replica.
  double clip_gradients(double max_norm, double loss_scale);

  /// Parameters and the optimizer's state.
  std::vector<NamedShard> shards() const;
  /// See Strategy::exported_shards().
  std::vector<NamedShard> exported_shards() const;
  void prepare(const std::vector<std::string>& names) { state_->prepare(names); }
  void apply(const std::vector<NamedShard>& shards);
  void account(KnownMemory& known) const;

 private:
  const Ranks& ranks_;
  const Model& model_;
  const bool is_sharded_;
  std::vector<uint8_t> counted_;  // by tensor: whether its elements count on this rank, as in a norm
  std::unique_ptr<GradientSums> sums_;
  std::vector<OptimizedTensor> tensors_;
  std::vector<NamedTensor> named_;
  std::unique_ptr<torch::optim::Optimizer> of_slices_;  // null: the caller's
  torch::optim::Optimizer* optimizer_;
  std::optional<OptimizerState> state_;
};

}  // namespace tw::train
