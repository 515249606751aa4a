// SPDX-License-Identifier: Apache-2.0
// Makes the ranks' state equal by copying one rank's state. <tw/data_parallel/average.hpp> averages instead.
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Copies the values of `root`'s tensors to all ranks. Tensors of one dtype are packed into buckets (default BucketOptions), with one broadcast per
/// bucket. Collective.
/// @throws ContractError on every rank, naming ranks and tensor, when names, shapes or dtypes differ.
void synchronize(const Communicator& comm, const std::vector<NamedTensor>& tensors, Rank root = Rank(0));

/// The same for tensors without names; messages call them "tensor 0", "tensor 1", ...
void synchronize(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root = Rank(0));

/// The same for one tensor.
void synchronize(const Communicator& comm, const at::Tensor& tensor, Rank root = Rank(0));

/// The same for all parameters and buffers of `module`.
void synchronize(const Communicator& comm, const torch::nn::Module& module, Rank root = Rank(0));

/// Copies the state of `root`'s optimizer to every rank: its state for each parameter (moments, step counts), and all options of its groups and
/// defaults (learning rates, ...). State that a rank lacks is created; state that `root` lacks is dropped. Parameters are not changed. Collective.
/// @param optimizer SGD, Adam, AdamW, RMSprop or Adagrad. On every rank, it must have the same number of groups, and parameters of the same shapes in
/// each group.
/// @throws ContractError on every rank, naming what differs or the unsupported kind of optimizer.
void synchronize(const Communicator& comm, torch::optim::Optimizer& optimizer, Rank root = Rank(0));

/// Sets LibTorch's default CPU generator to the state that it has on `root`, so that all ranks draw the same numbers from then on, such as for
/// initial values and shuffles. Dropout and augmentation need different numbers on each rank; seed those by rank. Collective.
void synchronize_generator(const Communicator& comm, Rank root = Rank(0));

}  // namespace tw
