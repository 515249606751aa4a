// SPDX-License-Identifier: Apache-2.0
// The operations that `torchweave bench comm` measures: their data, and their calls through Torchweave and through MPI itself.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw::tool {

/// The tensors of one case; undefined if the operation has none.
struct BenchData {
  at::Tensor input;  ///< also the output of operations in place
  at::Tensor output;
};

/// Makes a tensor of `floats` zeros, float32, in memory of its choice.
using MakeFloats = std::function<at::Tensor(int64_t floats)>;

/// @param bytes see message_sizes().
BenchData make_bench_data(Collective operation, int64_t bytes, int ranks, const MakeFloats& make);

/// One blocking call through Torchweave. Collective.
void call_torchweave(const Communicator& comm, Collective operation, const BenchData& data);
/// The same by MPI's own blocking function, on MPI's communicator of `comm`. Collective. @throws MpiError
void call_mpi(const Communicator& comm, Collective operation, const BenchData& data);

}  // namespace tw::tool
