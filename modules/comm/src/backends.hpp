// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <tw/comm/backend.hpp>
#include <tw/shared_memory/channel.hpp>
#include <vector>

#include "nodes.hpp"

namespace tw {

/// MPI's own non-blocking collectives. Can do all.
std::unique_ptr<Backend> make_mpi_backend();

/// One an algorithm of `algorithms`, over messages. @param next_sequence of mpi::messages_transfer(), shared by all that send them
std::vector<std::unique_ptr<Backend>> make_plan_backends(const Communicator& comm, const std::shared_ptr<int64_t>& next_sequence);

/// In nodes through their memory, between nodes by plans. @param channel of this node's ranks
std::unique_ptr<Backend> make_hierarchical_backend(const Communicator& comm, std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes,
                                                   Nodes nodes, std::shared_ptr<int64_t> next_sequence);

/// Through the memory of a node. @param channel null where the ranks do not all share one.
std::unique_ptr<Backend> make_shared_memory_backend(std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes);

/// Complete from the beginning.
class Nothing : public mpi::Transfer {
 public:
  bool advance() override { return true; }
};

/// Whether elements of several ranks become one.
inline bool is_reduction(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce || collective == Collective::reduce_scatter;
}

/// Of a rank that is alone, in streams of the device.
std::unique_ptr<Backend> make_alone_backend(bool is_alone);

/// NCCL's, in streams of the device. Not for logical and bitwise reductions, nor for messages. @param kind of LibTorch's accelerator here
std::unique_ptr<Backend> make_nccl_backend(const std::string& kind);

/// Through memory of their devices that the ranks of a node have mapped, in streams. Not for messages.
struct IpcOptions {
  std::function<std::shared_ptr<shared_memory::Channel>(const Communicator&)> channel;  ///< collective; null where the ranks do not all share one
  int64_t slot_bytes;
  int64_t flat_bytes;
};
std::unique_ptr<Backend> make_ipc_backend(IpcOptions options);

/// MPI's own, of memory of a device. @param kind of LibTorch's accelerator here, or "": there is none. @param aware whether this MPI takes its
/// pointers.
std::unique_ptr<Backend> make_direct_backend(const std::string& kind, bool aware);

}  // namespace tw
