// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>

namespace tw::pipeline {
namespace {

constexpr int64_t most_dimensions = 8;

/// dtype, dimensions, sizes
at::Tensor header_of(const at::Tensor& tensor) {
  TW_EXPECTS(tensor.dim() <= most_dimensions, "tensors between stages have at most ", most_dimensions, " dimensions, got ", tensor.dim());
  const at::Tensor header = at::zeros({2 + most_dimensions}, at::kLong);
  auto* fields = header.mutable_data_ptr<int64_t>();
  fields[0] = static_cast<int64_t>(tensor.scalar_type());
  fields[1] = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), fields + 2);
  return header;
}

at::Tensor like_header(const at::Tensor& header) {
  const auto* fields = header.const_data_ptr<int64_t>();
  return at::empty(at::IntArrayRef(fields + 2, static_cast<size_t>(fields[1])), static_cast<at::ScalarType>(fields[0]));
}

at::Tensor empty_header() { return at::empty({2 + most_dimensions}, at::kLong); }

}  // namespace

void send_any(const Communicator& comm, const at::Tensor& tensor, Rank to, std::vector<Work>& under_way) {
  under_way.push_back(isend(comm, header_of(tensor), to));
  under_way.push_back(isend(comm, tensor.contiguous(), to));
}

at::Tensor receive_any(const Communicator& comm, Rank from) {
  const at::Tensor header = empty_header();
  recv(comm, header, from);
  at::Tensor tensor = like_header(header);
  recv(comm, tensor, from);
  return tensor;
}

at::Tensor broadcast_any(const Communicator& comm, const at::Tensor& tensor, Rank root) {
  const bool mine = comm.rank() == root;
  const at::Tensor header = mine ? header_of(tensor) : empty_header();
  broadcast(comm, header, root);
  at::Tensor result = mine ? tensor.contiguous() : like_header(header);
  broadcast(comm, result, root);
  return result;
}

}  // namespace tw::pipeline
