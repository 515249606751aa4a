// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw {

/// The sum over the ranks of rows of a tensor, times `factor`. Collective: indices and values are gathered, not reduced.
/// @param mine sparse in its first dimension (as embeddings' gradients are); undefined: no rows.
/// @return coalesced, the same on all ranks
at::Tensor sum_of_rows(const Communicator& comm, const TensorSpec& spec, const at::Tensor& mine, double factor);

}  // namespace tw
