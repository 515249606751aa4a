// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tw::pipeline {

/// Finds tensors that two stages of one rank change: what a pass then reads would depend on the schedule. SharedState finds those of several devices.
/// Only the first forward pass of each stage is watched. Buffers are compared by value, since not all operators advance their versions.
class StageChanges {
 public:
  /// @param module the parameters and buffers of all stages of the rank; null: nothing is watched
  explicit StageChanges(const std::shared_ptr<torch::nn::Module>& module);

  /// Call before a forward pass.
  void begin(int stage);
  /// Call after the forward pass of the same stage. @throws Error naming the tensor, and the other stage that has changed it since construction
  void end(int stage);

 private:
  struct Watched {
    std::string name;
    at::Tensor tensor;
    bool is_buffer = false;
    uint32_t version = 0;    // of a parameter before the pass
    at::Tensor before = {};  // copy of a buffer before the pass
    int changed_by = -1;     // a stage; -1: none so far
  };
  std::vector<Watched> watched_;
  std::set<int> seen_;  // stages whose first pass has begun
  bool is_watching_ = false;
};

}  // namespace tw::pipeline
