// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <limits>
#include <tw/tensor/memory_order.hpp>

namespace tw {
namespace {

/// Dimensions of size 1 fit anywhere.
bool lies_in(const at::Tensor& tensor, at::IntArrayRef order) {
  int64_t outer = std::numeric_limits<int64_t>::max();
  for (const int64_t dimension : order) {
    if (tensor.size(dimension) == 1) continue;
    if (tensor.stride(dimension) > outer) return false;
    outer = tensor.stride(dimension);
  }
  return true;
}

}  // namespace

std::vector<int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<int64_t> order;
  for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
    if (tensor.stride(dimension) != 0) order.push_back(dimension);
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t dimension) { return tensor.stride(dimension); });
  for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
    if (tensor.stride(dimension) == 0) order.insert(dimension == 0 ? order.begin() : std::ranges::find(order, dimension - 1) + 1, dimension);
  }
  return order;
}

at::Tensor empty_in_order(at::IntArrayRef sizes, const at::TensorOptions& options, at::IntArrayRef order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto dimension = static_cast<size_t>(order[i]);
    strides[dimension] = stride;
    stride *= std::max<int64_t>(sizes[dimension], 1);
  }
  return at::empty_strided(sizes, strides, options);
}

at::Tensor in_order(const at::Tensor& tensor, at::IntArrayRef order) {
  if (lies_in(tensor, order)) return tensor;
  return empty_in_order(tensor.sizes(), tensor.options(), order).copy_(tensor);
}

at::Tensor as_in_memory(const at::Tensor& tensor) { return tensor.permute(memory_order(tensor)).contiguous(); }

}  // namespace tw
