// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "operator_watch.hpp"

namespace tw {

/// Gradients of this rank's part of a model. Operators that would compute one number or vector from them on each rank separately are refused, e.g.
/// those of clip_grad_norm_() and LBFGS. Elementwise operators are allowed.
class SliceGradients final : public MemoryOwner {
 public:
  SliceGradients() : memory_(std::make_shared<WatchedMemory>(this)) {}
  ~SliceGradients() override { memory_->owner = nullptr; }
  SliceGradients(const SliceGradients&) = delete;
  SliceGradients& operator=(const SliceGradients&) = delete;

  /// The same memory, watched. @param gradient must be non-overlapping and dense
  at::Tensor watched(const at::Tensor& gradient) const;
  /// The tensor that was passed to watched(), if `gradient` is its result; else `gradient`.
  at::Tensor unwatched(const at::Tensor& gradient) const;

  void before_operator(std::span<const WatchedArgument> arguments, const std::string& op) override;

 private:
  std::shared_ptr<WatchedMemory> memory_;
};

}  // namespace tw
