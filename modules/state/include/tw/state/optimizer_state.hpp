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
  /// @param optimizer kept by reference. @param parameters all of its parameters, with their names.
  /// @throws ContractError naming an unsupported optimizer, or for parameters without a name.
  OptimizerState(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters);
  /// The same for an optimizer that updates slices of the parameters on this rank, such as ShardedOptimizer::local() with optimized(). The state of a
  /// slice has the same offsets as the slice, so it can be loaded with any other partition.
  OptimizerState(torch::optim::Optimizer& optimizer, std::vector<OptimizedTensor> parameters);

  /// The optimizer's existing state; a parameter that was never updated has none. Names are optimizer/PARAMETER/WHAT, such as
  /// "optimizer/conv1.weight/exp_avg". Tensors share the optimizer's memory, except step counters: these are new 0-dimensional int64 tensors.
  std::vector<NamedShard> shards() const;
  /// Creates and discards state so that shards() returns exactly those of `names` that begin with "optimizer/"; values are zero until loaded.
  /// @throws Error listing all names that this optimizer does not have (for slices, loading detects this).
  void prepare(const std::vector<std::string>& names);
  /// Sets the step counters from `shards`, which shards() made; all other tensors already share the optimizer's memory.
  void apply(const std::vector<NamedShard>& shards);

 private:
  void expect_known(std::set<std::string> names) const;

  torch::optim::Optimizer& optimizer_;
  std::vector<OptimizedTensor> parameters_;
  bool sliced_ = true;  // other ranks may have state names that this rank does not have
};

}  // namespace tw
