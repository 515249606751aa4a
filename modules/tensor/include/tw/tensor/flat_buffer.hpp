// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tw {

/// Where tensors lie in one flat buffer of a single dtype. Pure.
struct FlatLayout {
  std::vector<int64_t> offsets;  ///< elements from the start, one per tensor
  int64_t numel = 0;             ///< elements in all, padding included
};

/// Lays tensors of `numels` elements one after the other, each beginning at a multiple of `alignment` elements.
FlatLayout flat_layout(std::span<const int64_t> numels, int64_t alignment = 1);

/// One contiguous, zeroed allocation that several tensors are views of.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  /// @param numel elements in all. @param options the dtype, and where not the CPU, the device
  FlatBuffer(int64_t numel, const at::TensorOptions& options);
  /// On memory that exists: a contiguous tensor of shape [numel].
  explicit FlatBuffer(at::Tensor storage);

  /// The whole, shape [numel].
  const at::Tensor& storage() const noexcept { return storage_; }
  /// A contiguous tensor of `shape` that begins at element `offset`; shares memory and may outlive this object. For autograd it is a tensor
  /// of its own, so that it can serve as a gradient.
  at::Tensor view(int64_t offset, at::IntArrayRef shape) const;

 private:
  at::Tensor storage_;
};

}  // namespace tw
