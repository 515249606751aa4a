// SPDX-License-Identifier: Apache-2.0
#include "states_on_ranks.hpp"

#include <ATen/ops/ones.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/packed_shapes.hpp>
#include <utility>

namespace tw::layer_parallel {

namespace {

// What travels with the shapes: whether root records for a backward pass, and the kind of its device.
int64_t note(bool recorded, c10::DeviceType kind) { return 2 * static_cast<int64_t>(kind) + (recorded ? 1 : 0); }
std::pair<bool, c10::DeviceType> noted(int64_t number) { return {number % 2 == 1, static_cast<c10::DeviceType>(number / 2)}; }

}  // namespace

State broadcast_shapes(const Communicator& comm, const State& state, Rank root, bool recorded, std::optional<c10::Device> device) {
  const bool mine = comm.rank() == root;
  const at::Tensor shapes = mine ? pack_shapes(state, note(recorded, state[0].device().type())) : empty_packed_shapes();
  broadcast(comm, shapes, root);
  if (mine) return state;
  const auto [root_recorded, kind] = noted(note_of(shapes));
  TW_EXPECTS(root_recorded == recorded, "rank ", root, (recorded ? " does not record" : " records"), " for a backward pass, and rank ", comm.rank(),
             (recorded ? " does" : " does not"));
  return unpack_shapes(shapes, device.value_or(current_device(kind)));
}

State broadcast_state(const Communicator& comm, const State& state, Rank root, bool recorded, std::optional<c10::Device> device) {
  State result = broadcast_shapes(comm, state, root, recorded, device);
  for (at::Tensor& tensor : result) tensor = tensor.clone(at::MemoryFormat::Contiguous);  // others may hold what came in
  broadcast(comm, result, root);
  return result;
}

bool is_finite(const Communicator& comm, const State& state) {
  at::Tensor finite = at::ones({}, at::kLong);
  for (const at::Tensor& tensor : state) finite = finite * tensor.isfinite().all();
  finite = finite.cpu();
  allreduce(comm, finite, ReduceOp::min);
  return finite.item<int64_t>() == 1;
}

}  // namespace tw::layer_parallel
