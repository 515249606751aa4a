// SPDX-License-Identifier: Apache-2.0
// Predicts the memory of LibTorch's optimizers SGD, Adam, AdamW, RMSprop and Adagrad from their options. Local.
#pragma once
#include <cstdint>

namespace torch::optim {
class Optimizer;
class OptimizerOptions;
}  // namespace torch::optim

namespace tw {

/// Numbers of tensors, each as large as the parameter that they belong to.
struct OptimizerTensors {
  int state = 0;      ///< tensors that the optimizer keeps for a parameter
  int temporary = 0;  ///< most further tensors that exist while it updates the parameter
};
/// @param options of a parameter group. @throws ContractError for an optimizer that is not listed above, naming it
OptimizerTensors optimizer_tensors(const torch::optim::OptimizerOptions& options);

struct OptimizerMemory {
  int64_t state_bytes = 0;      ///< bytes that it keeps, once it has updated all trained parameters
  int64_t temporary_bytes = 0;  ///< most further bytes during its step
};
/// Counts parameters that have memory on this rank. Gradients must be dense. @throws as optimizer_tensors() does
OptimizerMemory optimizer_memory(const torch::optim::Optimizer& optimizer);

}  // namespace tw
