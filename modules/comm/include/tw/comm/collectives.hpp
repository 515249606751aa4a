// SPDX-License-Identifier: Apache-2.0
// Collectives on tensors. Every rank of the communicator makes the same calls in the same order, with the same shapes and dtypes;
// audit builds check that and name the ranks that differ. Tensors are contiguous and on the CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/comm/work.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/datatype.hpp>

namespace tw {

/// Element-wise reductions: sum, min, max.
using ReduceOp = mpi::Op;

/// Reduces `tensor` element by element over all ranks, in place. Collective.
/// @param tensor any shape; uint8, int8, int16, int32, int64, float32 or float64.
/// @throws ContractError for other tensors, MpiError.
/// Large tensors go through MPI in pieces that stay in cache.
void allreduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op);

/// Starts the same. Collective. @param tensor at most 2^31 - 1 elements; kept alive by the result.
Work iallreduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op);

/// Copies `tensor` of `root` to all ranks, in place. Collective. @param tensor any shape and dtype.
/// @throws ContractError, MpiError.
void broadcast(const Communicator& comm, const at::Tensor& tensor, Rank root);

/// Starts the same. Collective. @param tensor at most 2^31 - 1 bytes; kept alive by the result.
Work ibroadcast(const Communicator& comm, const at::Tensor& tensor, Rank root);

}  // namespace tw
