// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <tw/mpi/engine.hpp>

namespace tw::mpi {

/// Starts the transfers of one communicator in call order, even if some must wait until they are ready. Ranks match transfers by that order.
class StartQueue {
 public:
  using Start = std::function<std::unique_ptr<Transfer>(const Communicator&)>;
  using Ready = std::function<bool(const Communicator&)>;

  /// Returns the transfer of `start(comm)`. Calls `start` at once if no earlier call waits and `ready` is empty. Otherwise the returned transfer
  /// calls `start` later, when the transfers of all earlier calls have started and `ready(comm)` is true.
  std::unique_ptr<Transfer> start(const Communicator& comm, Start start, Ready ready = {});

  /// Whether the start of a transfer still waits.
  bool is_waiting() const noexcept { return started_ != called_; }

 private:
  class Waiting;

  std::atomic<int64_t> called_ = 0;   // calls that had to wait
  std::atomic<int64_t> started_ = 0;  // those of them that have started
};

/// The queue for collectives, including blocking ones: MPI matches them all by call order.
StartQueue& collective_queue(const Communicator& comm) noexcept;
/// The queue for messages between two ranks, and for collectives that consist of messages. Their start depends only on this rank, so no other rank
/// can delay it.
StartQueue& message_queue(const Communicator& comm) noexcept;

}  // namespace tw::mpi
