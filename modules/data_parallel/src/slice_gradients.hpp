// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "operator_watch.hpp"

namespace tw {

/// Gradients of slices, of which each rank has its own: what would compute one number or one vector of them on each rank by itself is refused, such
/// as clip_grad_norm_() and LBFGS. Operators that treat each element for itself are not.
class SliceGradients final : public MemoryOwner {
 public:
  SliceGradients() : memory_(std::make_shared<WatchedMemory>(this)) {}
  ~SliceGradients() override { memory_->owner = nullptr; }
  SliceGradients(const SliceGradients&) = delete;
  SliceGradients& operator=(const SliceGradients&) = delete;

  /// The same memory, looked after. @param gradient contiguous, shape [n]
  at::Tensor watched(const at::Tensor& gradient) const;

  void before_operator(std::span<const Taken> taken, const std::string& op) override;

 private:
  std::shared_ptr<WatchedMemory> memory_;
};

}  // namespace tw
