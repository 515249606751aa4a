// SPDX-License-Identifier: Apache-2.0
// The operations that `torchweave bench comm` measures: their data, and how they are called, by us and by MPI itself.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw::tool {

/// The tensors of one case; undefined where the operation has none.
struct BenchData {
  at::Tensor input;  ///< of operations in place also the output
  at::Tensor output;
};

/// Zeros of this many float32, somewhere.
using MakeFloats = std::function<at::Tensor(int64_t floats)>;

/// @param bytes see message_sizes().
BenchData make_bench_data(Collective operation, int64_t bytes, int ranks, const MakeFloats& make);

/// One blocking call through Torchweave. Collective.
void call_torchweave(const Communicator& comm, Collective operation, const BenchData& data);
/// The same by MPI's own blocking function, on the communicator behind `comm`. Collective. @throws MpiError
void call_mpi(const Communicator& comm, Collective operation, const BenchData& data);

}  // namespace tw::tool
