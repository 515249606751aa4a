// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/action_lists.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <tw/base/concat.hpp>

#include "list_execution.hpp"

namespace tw::pipeline {
namespace {

using Lists = std::vector<std::vector<RankAction>>;

bool is_collective(const RankAction& action) { return action.kind == RankAction::Kind::gather || action.kind == RankAction::Kind::reduce; }
bool is_message(const RankAction& action) { return action.kind == RankAction::Kind::send || action.kind == RankAction::Kind::receive; }

/// Checks each list by itself, and that the lists agree about each message and collective.
class ListCheck {
 public:
  explicit ListCheck(const ActionLists& lists) : lists_(lists) {}

  std::vector<std::string> problems() {
    for (size_t group = 0; group < lists_.groups.size(); ++group) check_group(group);
    for (size_t rank = 0; rank < lists_.ranks.size(); ++rank) {
      std::set<std::tuple<Kind, int, int>> made;
      for (const RankAction& action : lists_.ranks[rank]) {
        const std::string problem = problem_of(static_cast<int>(rank), action, made);
        if (!problem.empty()) problems_.push_back(concat("rank ", rank, ": ", problem));
      }
    }
    for (const auto& [from, to, sequence] : sent_) {
      if (!received_.contains({from, to, sequence}))
        problems_.push_back(concat("rank ", to, " never receives message ", sequence, " from rank ", from));
    }
    return std::move(problems_);
  }

 private:
  using Kind = RankAction::Kind;
  using MessageName = std::tuple<int, int, int>;  // sender, receiver, sequence

  bool is_rank(int rank) const { return rank >= 0 && rank < static_cast<int>(lists_.ranks.size()); }

  void check_group(size_t group) {
    std::vector<int> members = lists_.groups[group];
    std::sort(members.begin(), members.end());
    if (std::adjacent_find(members.begin(), members.end()) != members.end()) problems_.push_back(concat("group ", group, " names a rank twice"));
    if (!std::all_of(members.begin(), members.end(), [&](int rank) { return is_rank(rank); }))
      problems_.push_back(concat("group ", group, " names a rank that does not exist"));
  }

  /// @param made actions of this rank so far, as kind (gather for both kinds of collectives); stage, peer or group; and number
  std::string problem_of(int rank, const RankAction& action, std::set<std::tuple<Kind, int, int>>& made) {
    const auto is_repeated = [&](Kind kind, int where, int number) { return !made.emplace(kind, where, number).second; };
    if (is_collective(action)) {
      if (action.group < 0 || action.group >= static_cast<int>(lists_.groups.size())) return concat("there is no such group: ", name_of(action));
      const std::vector<int>& members = lists_.groups[static_cast<size_t>(action.group)];
      if (std::find(members.begin(), members.end(), rank) == members.end())
        return concat("the rank is not in the group, but its list has the ", name_of(action));
      if (is_repeated(Kind::gather, action.group, action.sequence)) return concat("the ", name_of(action), " occurs twice");
      const auto first = collectives_.emplace(std::pair(action.group, action.sequence), std::pair(action.kind, rank)).first->second;
      return first.first == action.kind ? "" : concat("the ", name_of(action), " has another kind on rank ", first.second);
    }
    if (is_message(action)) {
      if (!is_rank(action.peer) || action.peer == rank) return concat("the peer must be another rank: ", name_of(action));
      if (is_repeated(action.kind, action.peer, action.sequence)) return concat("the ", name_of(action), " occurs twice");
      if (action.kind == Kind::send) sent_.emplace(rank, action.peer, action.sequence);
      if (action.kind == Kind::receive) received_.emplace(action.peer, rank, action.sequence);
      return "";
    }
    if (is_repeated(action.kind, action.stage, action.micro_batch)) return concat("the ", name_of(action), " occurs twice");
    const bool is_early = action.kind == Kind::backward && !made.contains({Kind::forward, action.stage, action.micro_batch});
    return is_early ? concat("the ", name_of(action), " precedes its forward pass") : "";
  }

  const ActionLists& lists_;
  std::vector<std::string> problems_;
  std::set<MessageName> sent_;
  std::set<MessageName> received_;
  std::map<std::pair<int, int>, std::pair<Kind, int>> collectives_;  // by group and sequence: kind, and the first rank that names it
};

/// A channel for each ordered pair of ranks that exchange messages.
ExecutableLists executable(const ActionLists& lists) {
  ExecutableLists all{.lists = std::vector<std::vector<Step>>(lists.ranks.size())};
  std::map<std::pair<size_t, size_t>, size_t> channels;
  std::map<std::pair<int, int>, size_t> collectives;
  const auto channel = [&](size_t from, size_t to) {
    const auto [found, is_new] = channels.emplace(std::pair(from, to), all.channels.size());
    if (is_new) all.channels.push_back({from, to});
    return found->second;
  };
  for (size_t rank = 0; rank < lists.ranks.size(); ++rank) {
    for (const RankAction& action : lists.ranks[rank]) {
      Step& step = all.lists[rank].emplace_back();
      const auto peer = static_cast<size_t>(action.peer);
      if (action.kind == RankAction::Kind::send) step.out = {channel(rank, peer), action.sequence};
      if (action.kind == RankAction::Kind::receive) step.in = {channel(peer, rank), action.sequence};
      if (!is_collective(action)) continue;
      const auto [found, is_new] = collectives.emplace(std::pair(action.group, action.sequence), all.collectives.size());
      if (is_new) {
        const std::vector<int>& members = lists.groups[static_cast<size_t>(action.group)];
        all.collectives.emplace_back(members.begin(), members.end());
      }
      step.collective = found->second;
    }
  }
  return all;
}

/// Why ranks are blocked: the causes, without the ranks that wait only because others do.
class Deadlocks {
 public:
  Deadlocks(const Lists& lists, const std::vector<BlockedList>& blocked) : lists_(lists), blocked_(blocked), of_rank_(lists.size(), nullptr) {
    for (const BlockedList& each : blocked_) of_rank_[each.list] = &each;
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> problems;
    for (const BlockedList& each : blocked_) {
      if (each.reason == BlockedList::Reason::wrong_message)
        problems.push_back(concat(place(each), " waits for ever: message ", each.item, " comes first"));
      for (const size_t other : each.waits_for) {
        if (never_comes(each, other)) problems.push_back(concat(place(each), " waits for ever for rank ", other, ", which never takes part"));
      }
    }
    for (const std::vector<size_t>& cycle : cycles()) {
      std::string text = "ranks wait for each other:";
      for (size_t i = 0; i < cycle.size(); ++i)
        text += concat(i > 0 ? "; " : " ", place(*of_rank_[cycle[i]]), " waits for rank ", cycle[(i + 1) % cycle.size()]);
      problems.push_back(text);
    }
    return problems;
  }

 private:
  const RankAction& action(const BlockedList& blocked) const { return lists_[blocked.list][blocked.position]; }
  std::string place(const BlockedList& blocked) const {
    return concat("rank ", blocked.list, " at action ", blocked.position, ", ", name_of(action(blocked)), ',');
  }

  /// Whether the rest of `other`'s list lacks what `blocked` waits for.
  bool never_comes(const BlockedList& blocked, size_t other) const {
    if (of_rank_[other] == nullptr) return true;
    const RankAction& waiting = action(blocked);
    const auto is_awaited = [&](const RankAction& each) {
      if (is_collective(waiting)) return is_collective(each) && each.group == waiting.group && each.sequence == waiting.sequence;
      return each.kind == RankAction::Kind::send && each.peer == static_cast<int>(blocked.list) && each.sequence == waiting.sequence;
    };
    const std::vector<RankAction>& list = lists_[other];
    return std::none_of(list.begin() + static_cast<std::ptrdiff_t>(of_rank_[other]->position), list.end(), is_awaited);
  }

  /// Walks from each rank to the first one that it waits for and that has the awaited action ahead. A walk ends in a cycle, or at a rank that waits
  /// only for actions that never come.
  std::vector<std::vector<size_t>> cycles() const {
    std::vector<std::vector<size_t>> found;
    std::map<size_t, size_t> walk_of;  // by rank: start of the walk that reached it first
    for (const BlockedList& start : blocked_) {
      std::optional<size_t> rank = start.list;
      while (rank && walk_of.emplace(*rank, start.list).second) rank = next(*rank);
      if (!rank || walk_of[*rank] != start.list) continue;  // no cycle, or one that an earlier walk found
      std::vector<size_t>& cycle = found.emplace_back();
      for (size_t each = *rank; cycle.empty() || each != *rank; each = *next(each)) cycle.push_back(each);
    }
    return found;
  }
  std::optional<size_t> next(size_t rank) const {
    for (const size_t other : of_rank_[rank]->waits_for) {
      if (!never_comes(*of_rank_[rank], other)) return other;
    }
    return std::nullopt;
  }

  const Lists& lists_;
  const std::vector<BlockedList>& blocked_;
  std::vector<const BlockedList*> of_rank_;
};

}  // namespace

std::string name_of(const RankAction& action) {
  switch (action.kind) {
    case RankAction::Kind::forward:
    case RankAction::Kind::backward:
      return concat(action.kind == RankAction::Kind::forward ? "forward" : "backward", " pass of micro-batch ", action.micro_batch, " on stage ",
                    action.stage);
    case RankAction::Kind::send: return concat("send of message ", action.sequence, " to rank ", action.peer);
    case RankAction::Kind::receive: return concat("receive of message ", action.sequence, " from rank ", action.peer);
    default: return concat(action.kind == RankAction::Kind::gather ? "gather " : "reduce ", action.sequence, " of group ", action.group);
  }
}

std::vector<std::string> problems_of(const ActionLists& lists) {
  std::vector<std::string> problems = ListCheck(lists).problems();
  if (!problems.empty()) return problems;
  const std::vector<BlockedList> blocked = execute(executable(lists), std::numeric_limits<size_t>::max());
  return Deadlocks(lists.ranks, blocked).problems();
}

}  // namespace tw::pipeline
