// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// Assembles each named tensor from the ranks' slices, on the CPU, and calls `visit` with it on every rank. Collective. All slices of a tensor must
/// have the same dtype; slices that several ranks hold must be equal.
/// @param shards this rank's slices; ranks may pass different lists.
void for_each_full_tensor(const Communicator& comm, const std::vector<NamedShard>& shards,
                          const std::function<void(const std::string& name, const at::Tensor& whole)>& visit);

/// Returns the tensors that for_each_full_tensor() assembles on rank 0, and an empty list on other ranks. Splits stacks of layers into their layers,
/// see NamedShard::layers. Collective.
std::vector<NamedTensor> full_tensors_on_root(const Communicator& comm, const std::vector<NamedShard>& shards);

}  // namespace tw
