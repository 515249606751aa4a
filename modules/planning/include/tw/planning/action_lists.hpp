// SPDX-License-Identifier: Apache-2.0
// The actions of each rank in a step: computations, messages, and collectives of groups of ranks. Value types; problems_of() finds deadlocks.
#pragma once
#include <string>
#include <vector>

namespace tw::pipeline {

/// One action of a rank. Messages and collectives are numbered, so that problems_of() finds ranks that disagree about their order.
struct RankAction {
  enum class Kind {
    forward,
    backward,
    send,     ///< does not wait
    receive,  ///< waits for the message; messages from one rank to another arrive in the order in which they were sent
    gather,   ///< an all-gather: waits until all members of the group have reached it
    reduce,   ///< a reduction: waits for the members as an all-gather does
  };
  Kind kind = Kind::forward;
  int stage = 0;        ///< stage of a computation
  int micro_batch = 0;  ///< micro-batch of a computation
  int peer = 0;         ///< the other rank of a message
  int group = 0;        ///< group of a collective: index in ActionLists::groups
  int sequence = 0;     ///< number of a message among the messages from its sender to its receiver, or of a collective in its group

  bool operator==(const RankAction&) const = default;
};

/// The action lists of all ranks. A rank may be in any number of groups.
struct ActionLists {
  std::vector<std::vector<int>> groups;        ///< ranks of each group
  std::vector<std::vector<RankAction>> ranks;  ///< actions of each rank, in order
};

/// Describes an action, for example as "gather 3 of group 1" or "receive of message 0 from rank 5".
std::string name_of(const RankAction& action);

/// Returns the problems of the lists; empty if there are none. All ranks then reach the end of their lists. First checks for
/// - ranks and groups that do not exist, and groups that contain a rank twice;
/// - actions that occur twice in a list, and backward passes before their forward passes;
/// - messages whose peer is the rank itself, and messages that are sent but not received;
/// - collectives of a group that the rank is not in, or of another kind than on other ranks.
/// If there are none of these, simulates the lists, and reports
/// - each receive of a message that is not the oldest one in flight from the peer;
/// - ranks that wait for an action that never comes;
/// - each cycle of ranks that wait for each other, with their actions.
///
/// Lists cannot deadlock if they all follow one global order of messages and collectives, in which a send and its receive have the same place. Lists
/// without problems also complete with non-blocking operations, if each rank starts an operation at the operation's place in the list, and waits for
/// it there or later.
std::vector<std::string> problems_of(const ActionLists& lists);

}  // namespace tw::pipeline
