// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/base/clock.hpp>
#include <tw/mpi/mailbox.hpp>
#include <vector>

#include "messages.hpp"

namespace tw::search {

/// Gathers what goes to a worker while evaluations take less time than a message, so that messages are few.
class Post {
 public:
  static constexpr auto a_look = std::chrono::milliseconds(1);  ///< how long to wait for news before something else is done

  /// Called with what another worker says. It may send.
  using Listener = std::function<void(const Message& message, int from)>;

  /// Collective. @param workers their first ranks. @param before_messages called before any leaves: what they say must not be lost
  Post(const Communicator& workers, std::function<void()> before_messages, Listener listener);

  void send(const Message& message, int to);
  /// To each worker of [begin, end) but this one.
  void send_all(const Message& message, int begin, int end);
  /// Sends what was gathered, unless the last messages left a moment ago and more will come soon.
  void send_gathered(bool at_once);
  /// Hands all that has come to the listener. Waits for so long at most where nothing has.
  void deliver(std::chrono::nanoseconds wait = {});
  /// Until all that any worker had sent when it came here is delivered everywhere. Collective; what listeners send meanwhile is delivered at the next
  /// call.
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
