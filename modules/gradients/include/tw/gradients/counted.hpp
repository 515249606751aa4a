// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// By tensor: whether this rank counts its elements, such as in a norm. Of the ranks with the same part of the model, the first one does.
/// Collective. @param ranks those that hold a model together; null: this rank alone
std::vector<uint8_t> counted_here(const Communicator* ranks, const std::vector<OptimizedTensor>& tensors);

}  // namespace tw
