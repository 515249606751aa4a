// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// A copy of the values that tensors have at construction, such as a module's buffers before a pass that may be undone. Keeps the tensors alive.
class TensorSnapshot {
 public:
  explicit TensorSnapshot(std::vector<at::Tensor> tensors);
  explicit TensorSnapshot(const std::vector<NamedTensor>& tensors);

  /// Writes the values back into the same memory, invisibly to autograd: version counters do not advance. Graphs that saved the tensors can still run
  /// backward, with the restored values.
  void restore() const;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> copies_;
};

/// On destruction, restores the values that the tensors had at construction.
class RestoreOnExit {
 public:
  explicit RestoreOnExit(std::vector<at::Tensor> tensors);
  explicit RestoreOnExit(const std::vector<NamedTensor>& tensors);
  ~RestoreOnExit();
  RestoreOnExit(const RestoreOnExit&) = delete;
  RestoreOnExit& operator=(const RestoreOnExit&) = delete;

 private:
  TensorSnapshot copies_;
};

}  // namespace tw
