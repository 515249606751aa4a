// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/tensor/memory_order.hpp>
#include <tw/tensor/packed_shapes.hpp>

namespace tw {
namespace {

constexpr int64_t max_dimensions = 16;
constexpr int64_t max_tensors = 6;
// The note, the number of tensors, and for each: dtype, number of dimensions, sizes, and the order of dimensions in memory.
constexpr int64_t packed_length = 2 + max_tensors * (2 + 2 * max_dimensions);

/// @param make returns a tensor of the given sizes, dtype and order
std::vector<at::Tensor> unpack(const at::Tensor& packed, const auto& make) {
  const auto* fields = packed.const_data_ptr<int64_t>() + 1;
  std::vector<at::Tensor> tensors(static_cast<size_t>(*fields++));
  for (at::Tensor& tensor : tensors) {
    const auto dtype = static_cast<at::ScalarType>(*fields++);
    const auto dimensions = static_cast<size_t>(*fields++);
    tensor = make(at::IntArrayRef(fields, dimensions), dtype, at::IntArrayRef(fields + dimensions, dimensions));
    fields += 2 * dimensions;
  }
  return tensors;
}

}  // namespace

at::Tensor pack_shapes(const std::vector<at::Tensor>& tensors, int64_t note) {
  TW_EXPECTS(!tensors.empty() && static_cast<int64_t>(tensors.size()) <= max_tensors, "1 to ", max_tensors, " tensors can be sent together, got ",
             tensors.size());
  at::Tensor packed = at::zeros({packed_length}, at::kLong);
  auto* fields = packed.mutable_data_ptr<int64_t>();
  *fields++ = note;
  *fields++ = static_cast<int64_t>(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    TW_EXPECTS(tensor.dim() <= max_dimensions, "a tensor whose shape is sent can have at most ", max_dimensions, " dimensions, got ", tensor.dim());
    *fields++ = static_cast<int64_t>(tensor.scalar_type());
    *fields++ = tensor.dim();
    fields = std::copy(tensor.sizes().begin(), tensor.sizes().end(), fields);
    fields = std::ranges::copy(memory_order(tensor), fields).out;
  }
  return packed;
}

at::Tensor empty_packed_shapes() { return at::empty({packed_length}, at::kLong); }

std::vector<at::Tensor> unpack_shapes(const at::Tensor& packed, c10::Device device) {
  return unpack(packed, [device](at::IntArrayRef sizes, at::ScalarType dtype, at::IntArrayRef /*order*/) {
    return at::empty(sizes, at::device(device).dtype(dtype));
  });
}

std::vector<at::Tensor> unpack_in_order(const at::Tensor& packed, c10::Device device) {
  return unpack(packed, [device](at::IntArrayRef sizes, at::ScalarType dtype, at::IntArrayRef order) {
    return empty_in_order(sizes, at::device(device).dtype(dtype), order);
  });
}

int64_t note_of(const at::Tensor& packed) { return packed.const_data_ptr<int64_t>()[0]; }

}  // namespace tw
