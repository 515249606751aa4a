// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace torch {
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace tw::search {

/// The tensors that a trial needs to resume after a pause, or to continue from a copy of another trial. Each rank on which the trial runs attaches
/// its own tensors.
struct Attachment {
  std::function<std::vector<NamedShard>()> shards;                          ///< returns the tensors themselves, not copies
  std::function<void(const std::vector<std::string>& names)> prepare = {};  ///< makes shards() return exactly these names; null: not needed
  std::function<void(const std::vector<NamedShard>& shards)> apply = {};    ///< called once these shards have the stored values; null: not needed
};

/// Attaches exactly these tensors.
Attachment attachment_of(std::vector<NamedTensor> tensors);
/// Attaches the parameters and buffers of `module` and the state of `optimizer`, without its learning rate and other options. OptimizerState
/// (<tw/state/optimizer_state.hpp>) must support the optimizer. Borrows both arguments until the objective returns.
Attachment attachment_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer);

}  // namespace tw::search
