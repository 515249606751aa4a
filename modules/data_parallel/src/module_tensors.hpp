// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Parameters and then buffers of `module`, each once.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module);

/// The same of a module that the ranks of `comm` replicate. Collective for a TrainableModel in parts.
/// @throws ContractError on every rank where they have different parts of it
std::vector<NamedTensor> tensors_of_replica(const Communicator& comm, const torch::nn::Module& module);

/// The entries of `parameters`, in their order.
std::vector<NamedTensor> tensors_of(const NamedParameters& parameters);

/// Those of `tensors` that require a gradient, each once.
std::vector<NamedTensor> trained(std::vector<NamedTensor> tensors);

/// @throws ContractError naming two of `tensors`, of which one at least is trained, that lie in the same memory
void expect_memory_of_their_own(const std::vector<NamedTensor>& tensors);

/// The one device that this rank's lie on; the CPU where there are none. Collective. @param user for messages
/// @throws ContractError on every rank, naming two that lie apart on one, or one that is neither dense on the CPU nor on an accelerator.
c10::Device device_of(const Communicator& comm, const std::string& user, const std::vector<NamedTensor>& tensors);

/// The device that all lie on, or the CPU where they lie apart.
c10::Device common_device_of(const std::vector<NamedTensor>& tensors);

/// The same tensors under the names "tensor 0", "tensor 1", ...
std::vector<NamedTensor> numbered(const std::vector<at::Tensor>& tensors);

}  // namespace tw
