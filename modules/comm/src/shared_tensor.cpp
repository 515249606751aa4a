// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/shared_tensor.hpp>

#include <ATen/ops/from_blob.h>

#include <c10/util/accumulate.h>
#include <algorithm>
#include <tw/tensor/tensor_spec.hpp>

#include "link.hpp"
#include "node_memory.hpp"

namespace tw {
namespace {

int64_t bytes_of(at::IntArrayRef shape, c10::ScalarType dtype) { return c10::multiply_integers(shape) * element_bytes(element_type(dtype)); }

}  // namespace

at::Tensor shared_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype) {
  constexpr int64_t page = 4096;  // shares begin on pages of their own
  const Link& link = Link::of(comm);
  const int64_t share = std::max<int64_t>(1, (bytes_of(shape, dtype) + page - 1) / page) * page;
  const auto& neighbours = link.neighbours();
  const auto memory = make_node_memory(comm, neighbours, share * static_cast<int64_t>(neighbours.size()));
  link.channel()->add_window(memory, share);
  std::byte* mine = memory.get() + link.channel()->rank() * share;
  return at::from_blob(mine, shape, [memory](void*) {}, at::TensorOptions().dtype(dtype));
}

at::Tensor node_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype) {
  const auto memory = make_node_memory(comm, Link::of(comm).neighbours(), std::max<int64_t>(1, bytes_of(shape, dtype)));
  return at::from_blob(memory.get(), shape, [memory](void*) {}, at::TensorOptions().dtype(dtype));
}

}  // namespace tw
