// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/base/clock.hpp>
#include <tw/evolution/individual.hpp>
#include <tw/mpi/mailbox.hpp>
#include <vector>

#include "bytes.hpp"

namespace tw::search {

/// What workers tell each other.
struct News {
  enum class Kind : uint8_t {
    result,     ///< an individual that ended, or came to the island: it counts there
    departure,  ///< an individual counts on this island no more
    immigrant,  ///< to the one that is to answer for it
    report,     ///< of a running trial
    ask,        ///< for a part of the quota
    answer,     ///< number: so many
    stop,       ///< the search is over
    ask_state,  ///< what the individual carries, to be copied by trial `number`
    state,      ///< it comes, for trial `number`, and belongs to the values; no values: there is none
    status,     ///< for the progress line: number of evaluations, value of the best loss, step of busy microseconds
  };
  Kind kind = Kind::result;
  Individual individual = {};
  bool replaces = false;  ///< an immigrant is a copy, and takes another's place
  int64_t number = 0;
  int64_t step = 0;
  double value = 0;
};

/// Gathers what goes to a worker while evaluations take less time than a letter, so that letters are few.
class Post {
 public:
  static constexpr auto a_look = std::chrono::milliseconds(1);  ///< how long to wait for news before something else is done

  /// Collective. @param workers their first ranks. @param before_letters called before any leaves: what they say must not be lost
  Post(const Communicator& workers, std::function<void()> before_letters);

  void send(const News& news, int to);
  /// To each worker of [begin, end) but this one.
  void send_all(const News& news, int begin, int end);
  /// Sends what was gathered, unless the last letters left a moment ago and more will come soon.
  void send_gathered(bool at_once);
  /// Hands all that has come to `take`, which may send. Waits for so long at most where nothing has.
  void deliver(const std::function<void(const News&, int from)>& take, std::chrono::nanoseconds wait = {});
  /// Until all that any worker had sent when it came here is delivered everywhere. Collective; what `take` sends meanwhile is delivered at the next
  /// call.
  void settle(const std::function<void(const News&, int from)>& take);

 private:
  void dispatch(size_t to);
  void deliver(const mpi::Mailbox::Letter& letter, const std::function<void(const News&, int from)>& take);

  mpi::Mailbox mailbox_;
  std::function<void()> before_letters_;
  std::vector<Bytes> outboxes_;  // by worker
  Stopwatch since_sent_;
};

}  // namespace tw::search
