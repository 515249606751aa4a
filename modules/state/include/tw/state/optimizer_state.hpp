// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tw {

/// The per-parameter state of a LibTorch optimizer (SGD, Adam, AdamW, RMSprop or Adagrad) as named shards. Learning rates and other options are not
/// included.
///
/// To load:  state.prepare(store.names(step));  auto shards = state.shards();  store.load(step, shards);  state.apply(shards);
class OptimizerState {
 public:
  /// @param optimizer kept by reference. @param parameters all parameters of `optimizer`, with their names.
  /// @throws ContractError for an unsupported optimizer, naming it, or for a parameter without a name.
  OptimizerState(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters);
  /// For an optimizer that updates slices of the parameters on this rank, such as ShardedOptimizer::local() with ShardedOptimizer::optimized() as
  /// `parameters`. The state of a slice has the same offsets as the slice, so it can be loaded with any other partition.
  OptimizerState(torch::optim::Optimizer& optimizer, std::vector<OptimizedTensor> parameters);

  /// The optimizer's existing state; a parameter that was never updated has none. Names are optimizer/PARAMETER/WHAT, such as
  /// "optimizer/conv1.weight/exp_avg". Tensors share the optimizer's memory, except step counters: these are new 0-dimensional int64 tensors.
  std::vector<NamedShard> shards() const;
  /// Creates and discards state so that shards() returns exactly those of `names` that begin with "optimizer/"; with slices, only those of this
  /// rank's slices. New state is zero until loaded.
  /// @throws Error listing all names of state that this optimizer cannot have; with slices, loading reports them instead.
  void prepare(const std::vector<std::string>& names);
  /// Sets the step counters from `shards`, the result of shards() after loading; all other tensors already share the optimizer's memory.
  void apply(const std::vector<NamedShard>& shards);

 private:
  void expect_known(std::set<std::string> names) const;

  torch::optim::Optimizer& optimizer_;
  std::vector<OptimizedTensor> parameters_;
  bool sliced_ = true;  // other ranks may have state names that this rank does not have
};

}  // namespace tw
