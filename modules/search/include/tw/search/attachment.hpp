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

/// The tensors that a trial needs to go on later, or from where another one is: on each rank of its worker that rank's own.
struct Attachment {
  std::function<std::vector<NamedShard>()> shards;                          ///< those that there are now; they share memory with their owner
  std::function<void(const std::vector<std::string>& names)> prepare = {};  ///< makes shards() return exactly those; none: it always does
  std::function<void(const std::vector<NamedShard>& shards)> apply = {};    ///< these have been filled; none: nothing else is to be done
};

/// Tensors as they are.
Attachment attachment_of(std::vector<NamedTensor> tensors);
/// Parameters and buffers, and what the optimizer remembers of them: one that OptimizerState knows. Its learning rate and other options are not
/// among that. Both are borrowed, for as long as the trial lasts.
Attachment attachment_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer);

}  // namespace tw::search
