// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Copies the values of `root`'s tensors to all ranks, in one flat broadcast per dtype and 25 MiB. Collective.
/// @throws ContractError on every rank, naming ranks and tensor, when names, shapes or dtypes differ.
void synchronize(const Communicator& comm, const std::vector<NamedTensor>& tensors, Rank root = Rank(0));

/// The same for all parameters and buffers of `module`.
void synchronize(const Communicator& comm, const torch::nn::Module& module, Rank root = Rank(0));

}  // namespace tw
