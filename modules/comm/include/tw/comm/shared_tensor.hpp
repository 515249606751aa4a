// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>

namespace tw {

/// A tensor of zeros in memory that all ranks of this node have mapped. all-reduce, reduce-scatter, all-gather and broadcast whose tensors lie there
/// on every rank need no intermediate copies: two to five times as fast. Otherwise it is an ordinary tensor: contiguous, on the CPU, its memory freed
/// with its last handle. Views of it work equally well. Collective; the same shape and dtype on all ranks.
/// @throws ContractError on every rank where shapes or dtypes differ. @throws Error on every rank, naming the size, where it cannot be mapped:
/// because of limits (ulimit -v), not for lack of memory, since pages are allocated on first access.
/// @param options the dtype, and where not the CPU, the device, on which an ordinary tensor is made.
at::Tensor shared_tensor(const Communicator& comm, at::IntArrayRef shape, const at::TensorOptions& options);

/// One tensor of zeros for each node of `comm`: the very same memory on all its ranks, for what they would otherwise each hold a copy of. Collective;
/// the same shape and dtype on all ranks. Its memory returns with the last handle on the node.
///
/// Any rank may read and write it; the library does not order accesses. Between two calls of barrier() on `comm`, an element may be read by many
/// ranks, or written and read by one: the others read after a barrier what a rank wrote before it, and no rank writes what others may still read. For
/// collectives it is ordinary memory: pass it as input where all may read, as output only where one rank of the node does so.
/// @throws as shared_tensor()
at::Tensor node_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype);

}  // namespace tw
