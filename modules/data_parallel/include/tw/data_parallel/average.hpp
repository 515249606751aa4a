// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Replaces each tensor by its mean over the ranks, in place; all ranks get the same bits. Tensors of one dtype are packed into buckets (default
/// BucketOptions), with one all-reduce per bucket. Collective.
/// @param tensors floating-point and complex tensors are averaged. Tensors of other dtypes (counters, masks) have no mean: they must be equal on all
/// ranks.
/// @throws ContractError on every rank, naming ranks and tensor, if names, shapes or dtypes differ, or if the values of a tensor without a mean
/// differ.
void average(const Communicator& comm, const std::vector<NamedTensor>& tensors);

/// The same for all parameters and buffers of `module`.
void average(const Communicator& comm, const torch::nn::Module& module);

}  // namespace tw
