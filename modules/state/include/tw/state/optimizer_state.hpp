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

/// What one of LibTorch's optimizers remembers of each parameter, as named shards: SGD, Adam, AdamW, RMSprop, Adagrad. Learning rates and other
/// options are the caller's.
///
/// To load:  state.prepare(names in the checkpoint);  auto shards = state.shards();  store.load(step, shards);  state.apply(shards);
class OptimizerState {
 public:
  /// @param optimizer kept by reference. @param parameters names for all of its parameters.
  /// @throws ContractError for other optimizers, by name, and for parameters without a name.
  OptimizerState(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters);
  /// The same for an optimizer that has slices of the parameters on this rank, such as ShardedOptimizer::local() with optimized(). The state of a
  /// slice has the slice's place in the parameter's shape, so it can be loaded under any other partition of the parameters.
  OptimizerState(torch::optim::Optimizer& optimizer, std::vector<OptimizedTensor> parameters);

  /// What exists now; nothing of a parameter that was never updated. Called optimizer/PARAMETER/WHAT, such as "optimizer/conv1.weight/exp_avg".
  /// Tensors share the optimizer's memory. Steps are counters: new tensors, int64 of no dimension.
  std::vector<NamedShard> shards() const;
  /// Makes and discards state, so that shards() returns exactly those of `names` that begin with "optimizer/"; values are zero until loaded.
  /// @throws Error for names that this optimizer does not have, all at once; of slices, loading finds that.
  void prepare(const std::vector<std::string>& names);
  /// Takes over the counters in `shards`, which shards() made; other tensors are the optimizer's own already.
  void apply(const std::vector<NamedShard>& shards);

 private:
  void expect_known(std::set<std::string> names) const;

  torch::optim::Optimizer& optimizer_;
  std::vector<OptimizedTensor> parameters_;
  bool sliced_ = true;  // so that other ranks may have what this one does not
};

}  // namespace tw
