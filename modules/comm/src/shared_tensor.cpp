// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/shared_tensor.hpp>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <c10/util/accumulate.h>
#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "link.hpp"
#include "node_memory.hpp"

namespace tw {
namespace {

// The size of the tensor in bytes. It must be the same on all ranks, because they share one memory.
int64_t agreed_bytes(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype) {
  expect_same_on_all_ranks(comm, "a tensor in shared memory", {concat(dtype_name(dtype), ' ', shape_text(shape.vec()))});
  return c10::multiply_integers(shape) * element_bytes(element_type(dtype));
}

}  // namespace

at::Tensor shared_tensor(const Communicator& comm, at::IntArrayRef shape, const at::TensorOptions& options) {
  constexpr int64_t page = 4096;  // each rank's share begins on a new page
  const int64_t bytes = agreed_bytes(comm, shape, c10::typeMetaToScalarType(options.dtype()));
  if (!options.device().is_cpu()) return at::zeros(shape, options);
  const Link& link = Link::made(comm);
  const int64_t share = std::max<int64_t>(1, divide_up(bytes, page)) * page;
  const auto& neighbours = link.neighbours();
  const auto memory = make_node_memory(comm, neighbours, share * static_cast<int64_t>(neighbours.size()));
  mpi::with_engine_paused(comm, [&] { link.channel()->add_window(memory, share); });
  std::byte* mine = memory.get() + link.channel()->rank() * share;
  return at::from_blob(mine, shape, [memory](void*) {}, options);
}

at::Tensor node_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype) {
  const auto memory = make_node_memory(comm, Link::made(comm).neighbours(), std::max<int64_t>(1, agreed_bytes(comm, shape, dtype)));
  return at::from_blob(memory.get(), shape, [memory](void*) {}, at::TensorOptions().dtype(dtype));
}

}  // namespace tw
