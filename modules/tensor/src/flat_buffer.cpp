// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/tensor/flat_buffer.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>

namespace tw {

FlatLayout flat_layout(std::span<const int64_t> numels, int64_t alignment) {
  TW_EXPECTS(alignment > 0, "alignment must be positive, got ", alignment);
  FlatLayout layout;
  layout.offsets.reserve(numels.size());
  for (const int64_t numel : numels) {
    TW_EXPECTS(numel >= 0, "a tensor cannot have ", numel, " elements");
    layout.offsets.push_back(layout.numel);
    layout.numel += (numel + alignment - 1) / alignment * alignment;
  }
  return layout;
}

FlatBuffer::FlatBuffer(int64_t numel, c10::ScalarType dtype) : storage_(at::zeros({numel}, at::TensorOptions().dtype(dtype))) {}

// Not storage_.narrow(): Optimizer::zero_grad() calls detach_() on gradients, which autograd refuses for its own kind of view.
at::Tensor FlatBuffer::view(int64_t offset, at::IntArrayRef shape) const {
  const int64_t numel = c10::multiply_integers(shape);
  TW_EXPECTS(offset >= 0 && offset + numel <= storage_.numel(), "elements ", offset, " to ", offset + numel, " do not lie in a buffer of ",
             storage_.numel());
  at::Tensor view = at::empty({0}, storage_.options());
  view.set_(storage_.storage(), offset, shape, c10::contiguous_strides(shape));
  return view;
}

}  // namespace tw
