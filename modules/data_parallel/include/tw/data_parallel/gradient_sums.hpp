// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of a rank's trained parameters over the ranks with other samples. The interface is the same whether the rank keeps these
// parameters whole (whole_parameters()) or a part of each (sharded_parameters()).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

class KnownMemory;

/// The ranks over which gradients are summed. Borrowed.
struct SumRanks {
  const Communicator* data = nullptr;   ///< ranks with the same parameter elements and other samples; null: there are none
  const Communicator* shard = nullptr;  ///< for sharded_parameters(): ranks with other elements of the same parameters, and other samples
  const Communicator* model = nullptr;  ///< ranks that hold the model together and have the same samples; null: this rank alone
};

class GradientSums {
 public:
  virtual ~GradientSums() = default;

  /// From now on, a backward pass that reaches the parameters throws with the message `otherwise`, except while the result of update() exists. Local.
  virtual void only_in_updates(const std::string& /*otherwise*/) {}
  /// Begins an update. Gradients that exist now must be sums over all ranks; they count once. Local. @return a handle; the update ends when the
  /// handle is destroyed
  virtual std::shared_ptr<void> update() { return nullptr; }
  /// While the result exists, backward passes add to this rank's gradients only. The next pass after its destruction, or join(), sums them over the
  /// ranks.
  virtual std::shared_ptr<void> hold() { return nullptr; }
  /// Sums gradients without a backward pass on this rank. Collective with the other ranks' passes.
  virtual void join() {}
  /// Marks gathered values as out of date. Call it after you have written the tensors of optimized(). Local.
  virtual void parameters_written() {}
  /// Continues with other communicators of the same ranks, after the previous ones were revoked. Collective over the mesh.
  virtual void restart(const SumRanks& ranks) = 0;
  /// Whether passes gather parameters. If so, all ranks must make the same number of passes.
  virtual bool gathers_in_passes() const { return false; }

  /// The tensors that the optimizer updates, in the order of the model's trained parameters, and their places in the model.
  virtual std::vector<OptimizedTensor> optimized() const = 0;
  /// This rank's parameters, for checkpoints.
  virtual std::vector<NamedShard> parameters() const = 0;
  /// Adds this rank's parameters and gradients, and the buffers that gathering and summing keep from update to update. Local.
  virtual void account(KnownMemory& known) const = 0;

  // For trainers; see the functions of the same names in DataParallel and FullySharded.

  /// The object that reduces gradients, for Reducer::vote() and statistics; null: nothing is reduced.
  virtual DataParallel* parallel() const = 0;
  virtual bool gradients_finite() const = 0;
  virtual Seconds exposed_time() const = 0;
  virtual int64_t payload_bytes() const = 0;

 protected:
  GradientSums() = default;
  GradientSums(const GradientSums&) = default;
  GradientSums& operator=(const GradientSums&) = default;
};

/// Every rank keeps its parameters of `model` whole; gradients are summed over SumRanks::data. Collective over all of `ranks`. @param model must
/// outlive the result. @param options with Reduction::sum; this function sets `sparse` and `parts`
std::unique_ptr<GradientSums> whole_parameters(const SumRanks& ranks, TrainableModel& model, DataParallelOptions options);

/// Arguments of sharded_parameters().
struct ShardedParametersSetup {
  FullyShardedOptions options;                ///< with Reduction::sum
  const torch::nn::Module* module = nullptr;  ///< the module that FullySharded wraps. Null, or with SumRanks::data: it wraps the model's parameters
  const InitialValues* initial = nullptr;     ///< see FullyShardedSetup
};
/// Shards the parameters of `model` over SumRanks::shard; the model's other tensors stay whole. Gradients are summed over SumRanks::shard and
/// SumRanks::data. Collective over all of `ranks`. @param model must outlive the result
std::unique_ptr<GradientSums> sharded_parameters(const SumRanks& ranks, TrainableModel& model, const ShardedParametersSetup& setup);

}  // namespace tw
