// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// What tensors hold now, such as a module's buffers before a pass that may have to leave no trace. Keeps them alive.
class TensorSnapshot {
 public:
  explicit TensorSnapshot(std::vector<at::Tensor> tensors);
  explicit TensorSnapshot(const std::vector<NamedTensor>& tensors);

  /// Writes it back into the same memory. Without autograd's knowledge: versions stay, so that graphs that saved the tensors can still be run, and
  /// take what is there then.
  void put_back() const;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> copies_;
};

/// Puts what tensors hold now back at the end of its life.
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
