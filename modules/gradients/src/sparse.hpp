// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw {

/// Sums rows of a tensor over the ranks, times `factor`. Collective: indices and values are gathered, not reduced.
/// @param mine sparse in its first dimension (like gradients of embeddings); undefined: no rows.
/// @return coalesced, the same on all ranks
at::Tensor sum_of_rows(const Communicator& comm, const TensorSpec& spec, const at::Tensor& mine, double factor);

}  // namespace tw
