// SPDX-License-Identifier: Apache-2.0
// What each rank does in a step: computations, messages, and collectives of groups of ranks. A value; a checker finds lists that deadlock.
#pragma once
#include <string>
#include <vector>

namespace tw::pipeline {

/// One action of a rank. Messages and collectives have numbers, so that a different order is found and values cannot mix.
struct RankAction {
  enum class Kind {
    forward,
    backward,
    send,     ///< does not wait
    receive,  ///< waits for the message; messages from one rank to another arrive in the order in which they were sent
    gather,   ///< an all-gather: waits until all members of the group are at it
    reduce,   ///< a reduction: likewise
  };
  Kind kind = Kind::forward;
  int stage = 0;        ///< of a computation
  int micro_batch = 0;  ///< of a computation
  int peer = 0;         ///< of a message: the other rank
  int group = 0;        ///< of a collective: index in ActionLists::groups
  int sequence = 0;     ///< number of a message between its two ranks, or of a collective in its group

  bool operator==(const RankAction&) const = default;
};

/// The action lists of all ranks. A rank may be in any number of groups.
struct ActionLists {
  std::vector<std::vector<int>> groups;        ///< ranks of each group
  std::vector<std::vector<RankAction>> ranks;  ///< actions of each rank, in order
};

/// Such as "gather 3 of group 1" or "receive of message 0 from rank 5".
std::string name_of(const RankAction& action);

/// Problems of the lists; empty: all ranks reach the end of theirs. Checks for ranks and groups that do not exist, duplicates, backward passes before
/// their forward passes, and messages that nobody receives. Executes the lists to find deadlocks: reports the ranks and actions of each cycle of
/// ranks that wait for each other, and ranks that wait for an action that never comes.
///
/// Lists made from one global order of all messages and collectives never deadlock. Lists without problems also run to their end if operations do not
/// block, and are waited for at the same place or later.
std::vector<std::string> problems_of(const ActionLists& lists);

}  // namespace tw::pipeline
