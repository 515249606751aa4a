// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <tw/comm/backend.hpp>
#include <tw/shared_memory/channel.hpp>
#include <vector>

#include "nodes.hpp"

namespace tw {

/// MPI's non-blocking collectives. Supports every call.
std::unique_ptr<Backend> make_mpi_backend();

/// One backend per algorithm of `algorithms`, over messages. @param next_sequence for mpi::messages_transfer(), shared by all backends that send
/// messages
std::vector<std::unique_ptr<Backend>> make_plan_backends(const Communicator& comm, const std::shared_ptr<int64_t>& next_sequence);

/// Shared memory inside nodes, plans between nodes. @param channel of this node's ranks
std::unique_ptr<Backend> make_hierarchical_backend(const Communicator& comm, std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes,
                                                   Nodes nodes, std::shared_ptr<int64_t> next_sequence);

/// Through a node's shared memory. @param channel null if the ranks do not all share one.
std::unique_ptr<Backend> make_shared_memory_backend(std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes);

/// A transfer that is complete from the start.
class Nothing : public mpi::Transfer {
 public:
  bool advance() override { return true; }
};

/// Whether the collective combines elements of several ranks.
inline bool is_reduction(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce || collective == Collective::reduce_scatter;
}

/// For a single rank, on device streams.
std::unique_ptr<Backend> make_alone_backend(bool is_alone);

/// NCCL, on device streams. Not for logical and bitwise reductions, nor for messages. @param kind LibTorch's accelerator on this rank
std::unique_ptr<Backend> make_nccl_backend(const std::string& kind);

/// Through device memory that all ranks of a node have mapped, on streams. Not for messages.
struct IpcOptions {
  std::function<std::shared_ptr<shared_memory::Channel>(const Communicator&)> channel;  ///< collective; null if the ranks do not all share one
  int64_t slot_bytes;
  int64_t flat_bytes;
};
std::unique_ptr<Backend> make_ipc_backend(IpcOptions options);

/// MPI's collectives on device memory. @param kind LibTorch's accelerator on this rank, or "" for none. @param aware whether this MPI accepts
/// pointers to device memory.
std::unique_ptr<Backend> make_direct_backend(const std::string& kind, bool aware);

}  // namespace tw
