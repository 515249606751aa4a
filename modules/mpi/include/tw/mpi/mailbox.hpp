// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::mpi {

/// Messages of any length, sent at any time: receivers need not expect them. Messages of one sender arrive in their order.
/// Every call but the destructor throws RevokedError once `comm` or what it was made from is revoked.
class Mailbox {
 public:
  struct Message {
    Rank from{0};
    std::vector<std::byte> bytes;
    bool operator==(const Message&) const = default;
  };

  /// Collective over `comm`, which is duplicated.
  explicit Mailbox(const Communicator& comm);
  /// Not collective. Messages that were not received by take() are lost; messages in flight are still delivered. A long message that its receiver
  /// never accepts is still in flight when the Environment ends.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  const Communicator& comm() const noexcept { return comm_; }
  /// Returns at once, unless `max_in_flight` messages are in flight: then it receives messages until one of these has left. That wait is monitored.
  /// @param bytes 1 to EnvironmentOptions::largest_message. @param to this rank itself included. @throws ContractError for others
  void send(std::vector<std::byte> bytes, Rank to);
  /// The next message that has come, if any.
  std::optional<Message> take();
  /// The same, but waits for a message for `timeout` at most.
  std::optional<Message> take_within(std::chrono::nanoseconds timeout);
  /// Returns when all messages have left; receives messages meanwhile. Monitored.
  void flush() { leave_at_most(0); }
  /// Whether there is nothing for flush() to wait for, as far as this rank has looked.
  bool all_left() const noexcept { return sends_.empty(); }

  /// Number of messages sent to each rank, and received from each, so far.
  const std::vector<int64_t>& sent() const noexcept { return sent_; }
  const std::vector<int64_t>& taken() const noexcept { return taken_; }

  static constexpr size_t max_in_flight = 256;

 private:
  struct Slot;
  class Receive;
  struct Sent {
    Call call;
    Work work;
  };

  void expect_next();
  void take_in();
  void leave_at_most(size_t messages);

  Communicator comm_;
  std::shared_ptr<Slot> slot_;  // what the receive in flight fills
  Work receive_;
  std::vector<Message> waiting_;  // received while sending; the first `next_` are consumed
  size_t next_ = 0;
  std::vector<Sent> sends_;  // that have not left
  std::vector<int64_t> sent_;
  std::vector<int64_t> taken_;
};

}  // namespace tw::mpi
