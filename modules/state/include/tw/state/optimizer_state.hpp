// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tw {

/// What one of LibTorch's optimizers remembers of each parameter, as named shards: SGD, Adam, AdamW, RMSprop, Adagrad. Learning rates and other
/// options are the caller's. For ranks that all hold the parameters whole.
///
/// To load:  state.prepare(names in the checkpoint);  auto shards = state.shards();  store.load(step, shards);  state.apply(shards);
class OptimizerState {
 public:
  /// @param optimizer kept by reference. @param parameters names for all of its parameters.
  /// @throws ContractError for other optimizers, by name, and for parameters without a name.
  OptimizerState(torch::optim::Optimizer& optimizer, std::vector<NamedTensor> parameters);

  /// What exists now; nothing of a parameter that was never updated. Called optimizer/PARAMETER/WHAT, such as "optimizer/conv1.weight/exp_avg".
  /// Tensors share the optimizer's memory. Steps are counters: new tensors, int64 of no dimension.
  std::vector<NamedShard> shards() const;
  /// Makes state, and forgets state, so that shards() gives exactly those of `names` that begin with "optimizer/"; values are zero until loaded.
  /// @throws Error for names that this optimizer does not have, all at once.
  void prepare(const std::vector<std::string>& names);
  /// Takes over the counters in `shards`, which shards() made; other tensors are the optimizer's own already.
  void apply(const std::vector<NamedShard>& shards);

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<NamedTensor> parameters_;
};

}  // namespace tw
