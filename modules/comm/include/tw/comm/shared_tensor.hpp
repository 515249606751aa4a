// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>

namespace tw {

/// A tensor of zeros in memory that all ranks of this node have mapped. all-reduce, reduce-scatter, all-gather and broadcast need no intermediate
/// copies if every rank's tensor lies in such memory, and are two to five times as fast. Views of the tensor work equally well. Otherwise it is an
/// ordinary tensor: contiguous, on the CPU, freed with its last handle. Collective; the same shape and dtype on all ranks.
/// @throws ContractError on every rank if shapes or dtypes differ. @throws Error on every rank, naming the size, if it cannot be mapped. The cause is
/// then a limit (ulimit -v), not lack of memory: pages are allocated on first access.
/// @param options the dtype and the device; on a device other than the CPU, the result is an ordinary tensor.
at::Tensor shared_tensor(const Communicator& comm, at::IntArrayRef shape, const at::TensorOptions& options);

/// One tensor of zeros per node of `comm`: the same memory on all ranks of the node, in place of one copy per rank. Collective; the same shape and
/// dtype on all ranks. The memory is freed with the last handle on the node.
///
/// Any rank may read and write it; the library does not order accesses. Between two calls of barrier() on `comm`, an element may be read by many
/// ranks, or written and read by one rank. Values written before a barrier may be read by other ranks after it. For collectives it is ordinary
/// memory: any rank may pass it as input while all may read it, but only one rank of the node may pass it as output.
/// @throws as shared_tensor()
at::Tensor node_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype);

}  // namespace tw
