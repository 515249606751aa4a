// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/comm/backend.hpp>
#include <tw/shared_memory/channel.hpp>

namespace tw {

/// MPI's own non-blocking collectives. Can do all.
std::unique_ptr<Backend> make_mpi_backend();

/// Through the memory of a node. @param channel null where the ranks do not all share one.
std::unique_ptr<Backend> make_shared_memory_backend(std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes);

}  // namespace tw
