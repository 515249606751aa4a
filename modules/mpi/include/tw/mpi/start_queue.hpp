// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <tw/mpi/engine.hpp>

namespace tw::mpi {

/// Starts the transfers of one communicator in call order, even if some must wait until they are ready, because ranks match them by that order.
class StartQueue {
 public:
  using Start = std::function<std::unique_ptr<Transfer>(const Communicator&)>;
  using Ready = std::function<bool(const Communicator&)>;

  /// Returns the transfer of `start(comm)`. Calls `start` at once if no earlier call waits and `ready` is empty. Otherwise the result calls it later,
  /// when all earlier calls have started and `ready(comm)` is true.
  std::unique_ptr<Transfer> start(const Communicator& comm, Start start, Ready ready = {});

  /// Whether a call waits.
  bool is_waiting() const noexcept { return started_ != called_; }

 private:
  class Waiting;

  std::atomic<int64_t> called_ = 0;   // calls that had to wait
  std::atomic<int64_t> started_ = 0;  // those of them that have started
};

/// The queue for collectives. MPI matches them by call order, including blocking ones.
StartQueue& collective_queue(const Communicator& comm) noexcept;
/// The queue for messages between two ranks, and for collectives that consist of messages. Their start depends only on this rank, so no other rank
/// can delay it.
StartQueue& message_queue(const Communicator& comm) noexcept;

}  // namespace tw::mpi
