// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <tw/mpi/engine.hpp>

namespace tw::mpi {

/// Transfers of one communicator that start in the order of their calls, though some must wait for what they need: ranks match them by that order.
class StartQueue {
 public:
  using Start = std::function<std::unique_ptr<Transfer>(const Communicator&)>;
  using Ready = std::function<bool(const Communicator&)>;

  /// What `start(comm)` makes: at once where no earlier call waits and `ready` is empty; else as part of the result, when all earlier calls have
  /// started and `ready(comm)` is true.
  std::unique_ptr<Transfer> start(const Communicator& comm, Start start, Ready ready = {});

  /// Whether a call waits.
  bool is_waiting() const noexcept { return started_ != called_; }

 private:
  class Waiting;

  std::atomic<int64_t> called_ = 0;   // that had to wait
  std::atomic<int64_t> started_ = 0;  // of those
};

/// For collectives: MPI matches them by the order of their calls, blocking ones too.
StartQueue& collective_queue(const Communicator& comm) noexcept;
/// For messages between two ranks, and for collectives made of them: what they need is this rank's alone, so that no other rank can hold them up.
StartQueue& message_queue(const Communicator& comm) noexcept;

}  // namespace tw::mpi
