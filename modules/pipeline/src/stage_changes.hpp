// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <vector>

namespace tw::pipeline {

/// Finds tensors that two stages of one rank change: what a pass then reads would depend on the schedule. SharedState finds those of several devices.
class StageChanges {
 public:
  /// @param module the parameters and buffers of all stages of the rank; null: nothing is watched
  explicit StageChanges(const std::shared_ptr<torch::nn::Module>& module);

  /// Call before a forward pass.
  void begin();
  /// Call after the forward pass. @throws Error naming the tensor, and the other stage that has changed it since construction
  void end(int stage);

 private:
  struct Watched {
    std::string name;
    at::Tensor tensor;
    uint32_t version = 0;
    int changed_by = -1;  // a stage; -1: none so far
  };
  std::vector<Watched> watched_;
};

}  // namespace tw::pipeline
