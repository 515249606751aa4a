// SPDX-License-Identifier: Apache-2.0
#include "states_on_ranks.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>

namespace tw::layer_parallel {
namespace {

constexpr int64_t most_dimensions = 8;
constexpr int64_t most_tensors = 6;

}  // namespace

State broadcast_shapes(const Communicator& comm, const State& state, Rank root, bool recorded) {
  // recorded, tensors, and of each: dtype, dimensions, sizes; one message of fixed size
  const at::Tensor header = at::zeros({2 + most_tensors * (2 + most_dimensions)}, at::kLong);
  int64_t* fields = header.data_ptr<int64_t>();
  *fields++ = recorded ? 1 : 0;
  if (comm.rank() == root) {
    TW_EXPECTS(!state.empty() && static_cast<int64_t>(state.size()) <= most_tensors, "a state has 1 to ", most_tensors, " tensors, got ",
               state.size());
    *fields++ = static_cast<int64_t>(state.size());
    for (const at::Tensor& tensor : state) {
      TW_EXPECTS(tensor.dim() <= most_dimensions, "a state's tensors have at most ", most_dimensions, " dimensions, got ", tensor.dim());
      *fields++ = static_cast<int64_t>(tensor.scalar_type());
      *fields++ = tensor.dim();
      fields = std::copy(tensor.sizes().begin(), tensor.sizes().end(), fields);
    }
  }
  broadcast(comm, header, root);
  if (comm.rank() == root) return state;
  fields = header.data_ptr<int64_t>();
  TW_EXPECTS((*fields++ != 0) == recorded, "rank ", root, (recorded ? " does not record" : " records"), " for a backward pass, and rank ",
             comm.rank(), (recorded ? " does" : " does not"));
  State result(static_cast<size_t>(*fields++));
  for (at::Tensor& tensor : result) {
    const auto dtype = static_cast<c10::ScalarType>(*fields++);
    const int64_t dimensions = *fields++;
    tensor = at::empty(at::IntArrayRef(fields, static_cast<size_t>(dimensions)), dtype);
    fields += dimensions;
  }
  return result;
}

State broadcast_state(const Communicator& comm, const State& state, Rank root, bool recorded) {
  State result = broadcast_shapes(comm, state, root, recorded);
  for (at::Tensor& tensor : result) tensor = tensor.clone(at::MemoryFormat::Contiguous);  // others may hold what came in
  broadcast(comm, result, root);
  return result;
}

}  // namespace tw::layer_parallel
