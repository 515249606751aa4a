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

/// Sends and receives messages of different lengths at any time; receivers need not expect them. Messages of one sender arrive in order. Functions
/// that communicate throw RevokedError once comm(), or a communicator from which it was derived, is revoked.
class Mailbox {
 public:
  struct Message {
    Rank from{0};
    std::vector<std::byte> bytes;
    bool operator==(const Message&) const = default;
  };

  /// Collective over `comm`, which is duplicated.
  explicit Mailbox(const Communicator& comm);
  /// Not collective. Messages to this rank that take() has not returned are lost; messages from this rank are still delivered. A long message that
  /// its receiver never accepts is still in flight when the Environment ends, see EnvironmentOptions::drain_timeout.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  const Communicator& comm() const noexcept { return comm_; }
  /// Returns at once, unless `max_in_flight` earlier messages have not been sent yet. In that case it receives messages until one of them has been
  /// sent. The watchdog (EnvironmentOptions::stall_warning) monitors that wait.
  /// @param bytes 1 to EnvironmentOptions::largest_message bytes. @param to any rank, including this one. @throws ContractError otherwise
  void send(std::vector<std::byte> bytes, Rank to);
  /// The next message that has arrived, if any.
  std::optional<Message> take();
  /// Like take(), but waits up to `timeout` for a message.
  std::optional<Message> take_within(std::chrono::nanoseconds timeout);
  /// Returns when all messages have been sent; receives messages meanwhile. The watchdog monitors this wait.
  void flush() { drain_to(0); }
  /// Whether flush() has nothing to wait for, as of this rank's last check.
  bool all_sent() const noexcept { return sends_.empty(); }

  /// By rank: the number of messages passed to send() for that rank so far, and the number from that rank that take() has returned.
  const std::vector<int64_t>& sent() const noexcept { return sent_; }
  const std::vector<int64_t>& received() const noexcept { return received_; }

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
  void drain_to(size_t messages);

  Communicator comm_;
  std::shared_ptr<Slot> slot_;  // buffer of the receive in flight
  Work receive_;
  std::vector<Message> waiting_;  // received while sending; the first `next_` are consumed
  size_t next_ = 0;
  std::vector<Sent> sends_;  // messages that have not been sent yet
  std::vector<int64_t> sent_;
  std::vector<int64_t> received_;
};

}  // namespace tw::mpi
