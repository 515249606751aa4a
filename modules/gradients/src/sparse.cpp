// SPDX-License-Identifier: Apache-2.0
#include "sparse.hpp"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <tw/comm/collectives.hpp>

namespace tw {

at::Tensor sum_of_rows(const Communicator& comm, const TensorSpec& spec, const at::Tensor& mine, double factor) {
  std::vector<int64_t> rows = spec.shape;
  rows.front() = 0;
  at::Tensor indices = at::empty({0}, at::TensorOptions().dtype(at::kLong));
  at::Tensor values = at::empty(rows, at::TensorOptions().dtype(spec.dtype));
  if (mine.defined()) {
    const at::Tensor summed = mine.coalesce();
    indices = summed.indices().squeeze(0);
    values = summed.values();
  }
  const at::Tensor all_indices = at::cat(allgather_variable(comm, indices));
  const at::Tensor all_values = at::cat(allgather_variable(comm, values));
  all_values.mul_(factor);
  return at::_sparse_coo_tensor_unsafe(all_indices.unsqueeze(0), all_values, spec.shape, all_values.options().layout(at::kSparse)).coalesce();
}

}  // namespace tw
