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

/// The tensors that a trial needs to resume after a pause, or to continue from a copy of another trial. Each rank of a worker attaches its own.
struct Attachment {
  std::function<std::vector<NamedShard>()> shards;                          ///< the current tensors; they share memory with their owner
  std::function<void(const std::vector<std::string>& names)> prepare = {};  ///< makes shards() return exactly these names; null: it already does
  std::function<void(const std::vector<NamedShard>& shards)> apply = {};    ///< called after these shards have been filled; null: nothing else to do
};

/// Attaches tensors as they are.
Attachment attachment_of(std::vector<NamedTensor> tensors);
/// Attaches parameters, buffers and the optimizer's state, but not its learning rate and other options. OptimizerState must support the optimizer.
/// Borrows both arguments for as long as the trial lasts.
Attachment attachment_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer);

}  // namespace tw::search
