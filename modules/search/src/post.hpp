// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/base/clock.hpp>
#include <tw/mpi/mailbox.hpp>
#include <vector>

#include "messages.hpp"

namespace tw::search {

/// Sends messages between workers. While evaluations take less time than a message, messages to the same worker are gathered and sent together.
class Post {
 public:
  static constexpr auto poll_interval = std::chrono::milliseconds(1);  ///< how long to wait for messages before doing something else

  /// Called with each message from another worker. It may send messages.
  using Listener = std::function<void(const Message& message, int from)>;

  /// Collective. @param workers the first ranks of all workers. @param before_messages called before messages leave, to write their contents to the
  /// journal first
  Post(const Communicator& workers, std::function<void()> before_messages, Listener listener);

  void send(const Message& message, int to);
  /// Sends to each worker of [begin, end) except this one.
  void send_all(const Message& message, int begin, int end);
  /// Sends the gathered messages. @param at_once false: only if the last ones were sent 100 us ago or more
  void send_gathered(bool at_once);
  /// Passes all messages that have arrived to the listener. If there are none, waits for the first for at most `wait`.
  void deliver(std::chrono::nanoseconds wait = {});
  /// Returns when all messages that any worker had sent before its call are delivered everywhere. Collective. Messages that listeners send meanwhile
  /// are delivered by the next call.
  void settle();

 private:
  void dispatch(size_t to);
  void open(const mpi::Mailbox::Message& parcel);

  mpi::Mailbox mailbox_;
  std::function<void()> before_messages_;
  Listener listener_;
  std::vector<Bytes> outboxes_;  // by worker
  Stopwatch since_sent_;
};

}  // namespace tw::search
