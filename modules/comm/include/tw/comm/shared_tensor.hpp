// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>

namespace tw {

/// A tensor of zeros that lies in memory which the ranks of this node have all mapped. all-reduce, reduce-scatter, all-gather and broadcast whose
/// tensors lie there on every rank copy nothing on the way: two to five times as fast. Otherwise it is a tensor like any other: contiguous, on the
/// CPU, its memory returned with its last handle. Views of it are as good. Collective; the same shape and dtype on all ranks.
/// @throws ContractError on every rank where shapes or dtypes differ. @throws Error on every rank, naming the size, where it cannot be mapped: by its
/// limits (ulimit -v), not for want of memory, which is taken page by page as it is touched.
/// @param options the dtype, and where not the CPU, the device, on which a tensor like any other is made.
at::Tensor shared_tensor(const Communicator& comm, at::IntArrayRef shape, const at::TensorOptions& options);

/// One tensor of zeros for each node of `comm`: the very same memory on all its ranks, for what they would otherwise each hold a copy of. Collective;
/// the same shape and dtype on all ranks. Its memory returns with the last handle on the node.
///
/// Any rank may read and write it; the library orders nothing. Between two calls of barrier() on `comm`, an element may be read by many ranks or
/// written and read by one: what a rank wrote in front of a barrier, the others read after it, and nobody writes what others may still read. To
/// collectives it is ordinary memory: give it as input where all may read, as output only where one rank of the node does so.
/// @throws as shared_tensor()
at::Tensor node_tensor(const Communicator& comm, at::IntArrayRef shape, c10::ScalarType dtype);

}  // namespace tw
