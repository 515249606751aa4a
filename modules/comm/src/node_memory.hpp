// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// Zeroed memory that the ranks `neighbours` of `comm` (those of this node, ascending) have all mapped. Collective over all of `comm`: where a node
/// fails, all ranks hear of it.
/// @throws Error on every rank, naming those that failed and why.
std::shared_ptr<std::byte> make_node_memory(const Communicator& comm, const std::vector<int>& neighbours, int64_t bytes);

}  // namespace tw
