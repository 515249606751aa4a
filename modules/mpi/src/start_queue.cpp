// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/start_queue.hpp>

#include <tw/mpi/library.hpp>

#include "runtime.hpp"

namespace tw::mpi {

class StartQueue::Waiting : public Transfer {
 public:
  Waiting(const Communicator& comm, StartQueue& queue, Start start, Ready ready)
      : comm_(borrow(comm)), queue_(queue), place_(queue.called_++), start_(std::move(start)), ready_(std::move(ready)) {}

  bool advance() override {
    if (!transfer_ && !try_to_start()) return false;
    return transfer_->advance();
  }

 private:
  bool try_to_start() {
    if (queue_.started_ != place_) return false;
    try {
      if (ready_ && !ready_(comm_)) return false;
      transfer_ = start_(comm_);
    } catch (...) {
      ++queue_.started_;
      throw;
    }
    ++queue_.started_;
    return true;
  }

  const Communicator comm_;  // owns the queue
  StartQueue& queue_;
  const int64_t place_;
  const Start start_;
  const Ready ready_;
  std::unique_ptr<Transfer> transfer_;
};

std::unique_ptr<Transfer> StartQueue::start(const Communicator& comm, Start start, Ready ready) {
  expect_own_thread(comm);  // a call that failed after it had its place in the queue would block all others
  if (!ready && !is_waiting()) return start(comm);
  return std::make_unique<Waiting>(comm, *this, std::move(start), std::move(ready));
}

StartQueue& collective_queue(const Communicator& comm) noexcept { return comm.state()->collective_calls; }
StartQueue& message_queue(const Communicator& comm) noexcept { return comm.state()->messages; }

}  // namespace tw::mpi
