// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>

namespace tw {

/// Returns this rank's own tensor of zeros, in memory that all ranks of the node have mapped. If every rank passes its tensor of the same
/// shared_tensor() call, or a contiguous view of it, all-reduce, reduce-scatter, all-gather and broadcast need no intermediate copies and are two to
/// five times as fast. In other respects it is an
/// ordinary tensor: contiguous, on the CPU, freed with its last handle. Collective; the same shape and dtype on all ranks.
/// @throws ContractError on every rank if shapes or dtypes differ. @throws Error on every rank, naming the size, if the memory cannot be mapped. A
/// limit (ulimit -v) then causes the error, not lack of memory, because pages are allocated on first access.
/// @param options the dtype and the device; on a device other than the CPU, the result is an ordinary tensor.
at::Tensor shared_tensor(const Communicator& comm, at::IntArrayRef shape, const at::TensorOptions& options);

/// Returns one tensor of zeros per node of `comm`: all ranks of a node share its memory, in place of one copy per rank. Collective; the same shape
/// and dtype on all ranks. The memory is freed with the last handle on the node.
///
/// Any rank may read and write the tensor; the library does not order accesses. Between two calls of barrier() on `comm`, an element may be read by
/// many ranks, or written and read by one rank. Values written before a barrier may be read by other ranks after it. For collectives it is
/// ordinary memory, without the advantages of shared_tensor(), and the same rule holds: several ranks of a node may pass it as input, but only one of
/// them may pass it as output.
/// @throws as shared_tensor() does
at::Tensor node_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype);

}  // namespace tw
