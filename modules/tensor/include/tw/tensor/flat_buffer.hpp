// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tw {

/// Where tensors lie in one flat buffer of a single dtype.
struct FlatLayout {
  std::vector<int64_t> offsets;  ///< elements from the start, one per tensor
  int64_t numel = 0;             ///< total elements, padding included
};

/// Places tensors of `numels` elements one after the other, each beginning at a multiple of `alignment` elements. Pure.
FlatLayout flat_layout(std::span<const int64_t> numels, int64_t alignment = 1);

/// One contiguous allocation that several tensors share. It is zeroed, unless you pass existing memory.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  /// @param numel total elements. @param options dtype and device (default: the CPU)
  FlatBuffer(int64_t numel, const at::TensorOptions& options);
  /// Uses existing memory: a contiguous tensor of shape [numel].
  explicit FlatBuffer(at::Tensor storage);

  /// The whole buffer, shape [numel].
  const at::Tensor& storage() const noexcept { return storage_; }
  /// A contiguous tensor of `shape` that begins at element `offset`; shares memory and may outlive this object. Autograd sees an independent tensor,
  /// not a view, so it can serve as a gradient.
  at::Tensor view(int64_t offset, at::IntArrayRef shape) const;

 private:
  at::Tensor storage_;
};

}  // namespace tw
