// SPDX-License-Identifier: Apache-2.0
#include "states_on_ranks.hpp"

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/packed_shapes.hpp>

namespace tw::layer_parallel {

State broadcast_shapes(const Communicator& comm, const State& state, Rank root, std::optional<c10::Device> device) {
  const bool mine = comm.rank() == root;
  const at::Tensor shapes = mine ? pack_shapes(state, static_cast<int64_t>(state[0].device().type())) : empty_packed_shapes();
  broadcast(comm, shapes, root);
  if (mine) return state;
  return unpack_shapes(shapes, device.value_or(current_device(static_cast<c10::DeviceType>(note_of(shapes)))));
}

State broadcast_state(const Communicator& comm, const State& state, Rank root, std::optional<c10::Device> device) {
  State result = broadcast_shapes(comm, state, root, device);
  for (at::Tensor& tensor : result) tensor = tensor.clone(at::MemoryFormat::Contiguous);  // other owners may hold the input
  broadcast(comm, result, root);
  return result;
}

}  // namespace tw::layer_parallel
