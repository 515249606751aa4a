// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// Puts the slices that ranks have of named tensors together, one tensor after the other, on every rank. Collective. Slices of one tensor share their
/// dtype; those that several ranks have are equal.
/// @param shards this rank's; lists may differ between ranks.
void for_each_full_tensor(const Communicator& comm, const std::vector<NamedShard>& shards,
                          const std::function<void(const std::string& name, const at::Tensor& whole)>& visit);

}  // namespace tw
