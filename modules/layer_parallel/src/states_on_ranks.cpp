// SPDX-License-Identifier: Apache-2.0
#include "states_on_ranks.hpp"

#include <ATen/ops/ones.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/tensor/packed_shapes.hpp>

namespace tw::layer_parallel {

State broadcast_shapes(const Communicator& comm, const State& state, Rank root, bool recorded) {
  const bool mine = comm.rank() == root;
  const at::Tensor shapes = mine ? pack_shapes(state, recorded ? 1 : 0) : empty_packed_shapes();
  broadcast(comm, shapes, root);
  if (mine) return state;
  TW_EXPECTS((note_of(shapes) != 0) == recorded, "rank ", root, (recorded ? " does not record" : " records"), " for a backward pass, and rank ",
             comm.rank(), (recorded ? " does" : " does not"));
  return unpack_shapes(shapes);
}

State broadcast_state(const Communicator& comm, const State& state, Rank root, bool recorded) {
  State result = broadcast_shapes(comm, state, root, recorded);
  for (at::Tensor& tensor : result) tensor = tensor.clone(at::MemoryFormat::Contiguous);  // others may hold what came in
  broadcast(comm, result, root);
  return result;
}

bool is_finite(const Communicator& comm, const State& state) {
  const at::Tensor finite = at::ones({}, at::kLong);
  for (const at::Tensor& tensor : state) finite.mul_(tensor.isfinite().all());
  allreduce(comm, finite, ReduceOp::min);
  return finite.item<int64_t>() == 1;
}

}  // namespace tw::layer_parallel
