// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <tw/comm/collectives.hpp>
#include <tw/tensor/packed_shapes.hpp>

namespace tw::pipeline {

void send_any(const Communicator& comm, const at::Tensor& tensor, Rank to, std::vector<Work>& under_way) {
  under_way.push_back(isend(comm, pack_shapes({tensor}), to));
  under_way.push_back(isend(comm, tensor.contiguous(), to));
}

at::Tensor receive_any(const Communicator& comm, Rank from) {
  const at::Tensor shape = empty_packed_shapes();
  recv(comm, shape, from);
  at::Tensor tensor = unpack_shapes(shape).front();
  recv(comm, tensor, from);
  return tensor;
}

at::Tensor broadcast_any(const Communicator& comm, const at::Tensor& tensor, Rank root) {
  const bool mine = comm.rank() == root;
  const at::Tensor shape = mine ? pack_shapes({tensor}) : empty_packed_shapes();
  broadcast(comm, shape, root);
  at::Tensor result = mine ? tensor.contiguous() : unpack_shapes(shape).front();
  broadcast(comm, result, root);
  return result;
}

}  // namespace tw::pipeline
