// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/flat_buffer.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/util/strides.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace tw {
namespace {

// Large buffers request huge pages: MPI copies between processes page by page. An all-reduce of 32 MB on two ranks of a node then takes 4.0 ms
// instead of 5.9.
constexpr size_t huge_page_bytes = size_t{2} << 20;

}  // namespace

FlatLayout flat_layout(std::span<const int64_t> numels, int64_t alignment) {
  TW_EXPECTS(alignment > 0, "alignment must be positive, got ", alignment);
  FlatLayout layout;
  layout.offsets.reserve(numels.size());
  for (const int64_t numel : numels) {
    TW_EXPECTS(numel >= 0, "a tensor cannot have ", numel, " elements");
    layout.offsets.push_back(layout.numel);
    layout.numel += divide_up(numel, alignment) * alignment;
  }
  return layout;
}

FlatBuffer::FlatBuffer(int64_t numel, const at::TensorOptions& options) {
  TW_EXPECTS(numel >= 0, "a buffer cannot have ", numel, " elements");
  const auto bytes = static_cast<size_t>(numel) * options.dtype().itemsize();
  if (bytes < huge_page_bytes || !options.device().is_cpu()) {
    storage_ = at::zeros({numel}, options);
    return;
  }
  const size_t rounded = (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  void* memory = std::aligned_alloc(huge_page_bytes, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  // A hint: without it everything works, but slower. Not `rounded`, or the rest of the last huge page would be allocated, too.
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  const auto tell = [](void* of, int64_t size) { c10::reportMemoryUsageToProfiler(of, size, 0, 0, c10::Device(c10::kCPU)); };
  const auto give_back = [tell, bytes](void* unused) {
    tell(unused, -static_cast<int64_t>(bytes));
    std::free(unused);
  };
  storage_ = at::from_blob(memory, {numel}, give_back, options);
  tell(memory, static_cast<int64_t>(bytes));  // as LibTorch's own allocator does
}

FlatBuffer::FlatBuffer(at::Tensor storage) : storage_(std::move(storage)) {
  TW_EXPECTS(storage_.dim() == 1 && storage_.is_contiguous(), "a flat buffer needs a contiguous tensor of one dimension");
}

// Not storage_.narrow(): Optimizer::zero_grad() calls detach_() on gradients, which autograd refuses for its own kind of view.
at::Tensor FlatBuffer::view(int64_t offset, at::IntArrayRef shape) const {
  const int64_t numel = c10::multiply_integers(shape);
  TW_EXPECTS(offset >= 0 && offset + numel <= storage_.numel(), "elements ", offset, " to ", offset + numel, " do not lie in a buffer of ",
             storage_.numel());
  at::Tensor view = at::empty({0}, storage_.options());
  view.set_(storage_.storage(), storage_.storage_offset() + offset, shape, c10::contiguous_strides(shape));
  return view;
}

}  // namespace tw
