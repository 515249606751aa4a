// SPDX-License-Identifier: Apache-2.0
// Executes action lists that wait for each other. Used for schedules of stages and for lists with collectives.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

namespace tw::pipeline {

/// One action of a list, reduced to its messages and its collective. It runs when it need not wait for any of them.
struct Step {
  struct Message {
    size_t channel = 0;
    int item = 0;
  };
  std::optional<Message> in = {};         // message that it receives, which must be the channel's oldest
  std::optional<Message> out = {};        // message that it sends, for which the channel must have a place
  std::optional<size_t> collective = {};  // index of its collective: it runs together with the steps of all members
};

struct ExecutableLists {
  struct Channel {
    size_t from = 0;
    size_t to = 0;
  };
  std::vector<std::vector<Step>> lists;
  std::vector<Channel> channels = {};
  std::vector<std::vector<size_t>> collectives = {};  // members of each collective: the lists that take part
};

/// A list that cannot continue.
struct BlockedList {
  enum class Reason {
    no_message,     // the channel is empty
    wrong_message,  // `item` comes first
    channel_full,   // `item` is the oldest message, which the receiver has not taken
    collective,     // members are missing
  };
  size_t list = 0;
  size_t position = 0;  // its next step
  Reason reason = Reason::no_message;
  int item = 0;
  std::vector<size_t> waits_for = {};  // lists that must act first
};

/// Executes the lists as far as possible. The order in which lists take turns does not matter: a step that can run stays runnable until it has run.
/// Takes O(steps + members of all collectives). @param capacity maximum number of messages in a channel before its sender waits; a channel from a
/// list to itself holds any number
/// @return the lists that do not reach their end, ascending
std::vector<BlockedList> execute(const ExecutableLists& all, size_t capacity);

}  // namespace tw::pipeline
