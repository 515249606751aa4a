// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>

namespace tw {

/// Returns this rank's own contiguous tensor of zeros, in memory that collectives on the node's other ranks can access directly. Collective; the same
/// shape and dtype on all ranks.
///
/// Collectives over `comm` need no intermediate copies if all ranks of `comm` are on one node, and each passes its tensor of the same shared_tensor()
/// call, or a contiguous view of it. This holds for the tensor of all-reduce and broadcast, and for the input of all-gather and reduce-scatter.
/// Collectives that take a list of tensors still copy. In any other use, and for any other communicator, it is an ordinary tensor.
/// docs/benchmarks.md has measured times.
///
/// The memory is freed when no rank of the node holds its tensor of this call any longer.
/// @param options the dtype and the device; on a device other than the CPU, the result is an ordinary tensor
/// @throws ContractError on every rank if shapes or dtypes differ, or if collectives do not support the dtype
/// @throws Error on every rank, with the cause, if the memory cannot be mapped. The size in its message is that of all ranks of the node. A usual
/// cause is a limit on address space (ulimit -v). Lack of physical memory does not throw: it may end the process when a page is first accessed.
at::Tensor shared_tensor(const Communicator& comm, at::IntArrayRef shape, const at::TensorOptions& options);

/// Returns a tensor of zeros whose memory all ranks of `comm` on this node share: one copy per node instead of one per rank. Collective; the same
/// shape and dtype on all ranks. The memory is freed with the last handle on the node.
///
/// Any rank may read and write the tensor; the library does not order accesses. Between two calls of barrier() on `comm`, either any number of ranks
/// may read an element, or a single rank may read and write it. Other ranks may read a written value after the next barrier.
///
/// Collectives treat the tensor as ordinary memory, without the advantages of shared_tensor(). The rule above applies to their accesses, too: several
/// ranks of a node may pass the same elements as input, but only one rank may pass them as output.
/// @throws as shared_tensor() does
at::Tensor node_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype);

}  // namespace tw
