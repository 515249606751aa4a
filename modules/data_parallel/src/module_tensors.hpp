// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Parameters, then buffers of `module`, each once.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module);

/// The same for a module that the ranks of `comm` replicate. Collective for a TrainableModel with parts.
/// @throws ContractError on every rank if the ranks hold different parts
std::vector<NamedTensor> tensors_of_replica(const Communicator& comm, const torch::nn::Module& module);

/// The entries of `parameters`, in their order.
std::vector<NamedTensor> tensors_of(const NamedParameters& parameters);

/// The tensors that require a gradient, each once.
std::vector<NamedTensor> trained(std::vector<NamedTensor> tensors);

/// @throws ContractError naming two of `tensors` that share memory, if at least one of them requires a gradient
void expect_memory_of_their_own(const std::vector<NamedTensor>& tensors);

/// The device of this rank's tensors; the CPU if there are none. Collective. @param user for messages
/// @throws ContractError on every rank, naming two tensors on different devices, or one that is neither dense on the CPU nor on an accelerator.
c10::Device device_of(const Communicator& comm, const std::string& user, const std::vector<NamedTensor>& tensors);

/// The device that all tensors share; the CPU if they are on several.
c10::Device common_device_of(const std::vector<NamedTensor>& tensors);

/// The same tensors under the names "tensor 0", "tensor 1", ...
std::vector<NamedTensor> numbered(const std::vector<at::Tensor>& tensors);

}  // namespace tw
