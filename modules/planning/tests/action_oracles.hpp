// SPDX-License-Identifier: Apache-2.0
// Two independent judges of action lists without duplicates, and makers of lists.
#pragma once
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <tw/planning/action_lists.hpp>
#include <utility>
#include <vector>

namespace tw::pipeline::test {

using Kind = RankAction::Kind;

inline bool is_collective(const RankAction& action) { return action.kind == Kind::gather || action.kind == Kind::reduce; }

/// Executes the lists in every order in which ranks can take turns. A send is buffered, a receive waits for its message at the head of its channel, a
/// collective runs when all members are at it.
class EveryOrder {
 public:
  explicit EveryOrder(const ActionLists& lists) : lists_(lists) { visit(std::vector<size_t>(lists.ranks.size(), 0)); }

  bool all_end() const { return stuck_ == 0; }
  size_t ends() const { return ends_.size(); }  // different states in which nobody can continue

 private:
  using State = std::vector<size_t>;  // by rank, the number of actions made

  void visit(const State& state) {
    if (!seen_.insert(state).second) return;
    bool moved = false;
    for (size_t rank = 0; rank < state.size(); ++rank) {
      if (state[rank] == lists_.ranks[rank].size()) continue;
      State next = state;
      if (!run(rank, state, next)) continue;
      moved = true;
      visit(next);
    }
    if (moved) return;
    ends_.insert(state);
    for (size_t rank = 0; rank < state.size(); ++rank) stuck_ += state[rank] < lists_.ranks[rank].size() ? 1 : 0;
  }

  bool run(size_t rank, const State& state, State& next) const {
    const RankAction& action = lists_.ranks[rank][state[rank]];
    if (action.kind == Kind::receive && head(static_cast<size_t>(action.peer), rank, state) != action.sequence) return false;
    if (!is_collective(action)) {
      ++next[rank];
      return true;
    }
    for (const int member : lists_.groups[static_cast<size_t>(action.group)]) {
      const auto other = static_cast<size_t>(member);
      if (state[other] == lists_.ranks[other].size()) return false;
      const RankAction& theirs = lists_.ranks[other][state[other]];
      if (!is_collective(theirs) || theirs.group != action.group || theirs.sequence != action.sequence) return false;
      ++next[other];
    }
    return true;
  }

  /// The oldest message in flight from one rank to another; -1: none.
  int head(size_t from, size_t to, const State& state) const {
    size_t received = 0;
    for (size_t i = 0; i < state[to]; ++i) {
      const RankAction& each = lists_.ranks[to][i];
      if (each.kind == Kind::receive && each.peer == static_cast<int>(from)) ++received;
    }
    for (size_t i = 0; i < state[from]; ++i) {
      const RankAction& each = lists_.ranks[from][i];
      if (each.kind != Kind::send || each.peer != static_cast<int>(to)) continue;
      if (received == 0) return each.sequence;
      --received;
    }
    return -1;
  }

  const ActionLists& lists_;
  std::set<State> seen_;
  std::set<State> ends_;
  size_t stuck_ = 0;
};

/// Whether one order of all events obeys all lists, by a topological sort. A collective is one event; a message's receive comes after its send.
/// @param lists whose collectives are complete, and whose messages are sent and received in the same order
inline bool has_global_order(const ActionLists& lists) {
  using Event = std::tuple<int, int, int, int>;
  std::map<Event, std::set<Event>> after;
  std::map<Event, int> before;
  const auto add = [&](const Event& first, const Event& second) { before[second] += after[first].insert(second).second ? 1 : 0; };
  for (size_t r = 0; r < lists.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    const Event* last = nullptr;
    std::vector<Event> events;
    for (const RankAction& each : lists.ranks[r]) {
      if (is_collective(each)) events.emplace_back(0, each.group, each.sequence, 0);
      if (each.kind == Kind::send) events.emplace_back(1, rank, each.peer, each.sequence);
      if (each.kind == Kind::receive) events.emplace_back(2, each.peer, rank, each.sequence);
      if (each.kind == Kind::receive) add({1, each.peer, rank, each.sequence}, events.back());
    }
    for (const Event& each : events) {
      before[each] += 0;
      if (last != nullptr) add(*last, each);
      last = &each;
    }
  }
  std::vector<Event> ready;
  for (const auto& [event, count] : before) {
    if (count == 0) ready.push_back(event);
  }
  size_t sorted = 0;
  for (; !ready.empty(); ++sorted) {
    const Event event = ready.back();
    ready.pop_back();
    for (const Event& next : after[event]) {
      if (--before[next] == 0) ready.push_back(next);
    }
  }
  return sorted == before.size();
}

/// Random messages and collectives in one global order, entered in the lists of those who take part.
inline ActionLists random_lists(std::mt19937& random, int ranks, std::vector<std::vector<int>> groups, int events, int message_percent) {
  ActionLists lists{std::move(groups), std::vector<std::vector<RankAction>>(static_cast<size_t>(ranks))};
  std::map<std::pair<int, int>, int> messages;
  std::vector<int> collectives(lists.groups.size(), 0);
  const auto below = [&](size_t count) { return static_cast<int>(random() % count); };
  for (int i = 0; i < events; ++i) {
    if (below(100) < message_percent) {
      const int from = below(static_cast<size_t>(ranks));
      const int to = (from + 1 + below(static_cast<size_t>(ranks - 1))) % ranks;
      const int sequence = messages[{from, to}]++;
      lists.ranks[static_cast<size_t>(from)].push_back({.kind = Kind::send, .peer = to, .sequence = sequence});
      lists.ranks[static_cast<size_t>(to)].push_back({.kind = Kind::receive, .peer = from, .sequence = sequence});
    } else {
      const int group = below(lists.groups.size());
      const int sequence = collectives[static_cast<size_t>(group)]++;
      const Kind kind = below(2) == 0 ? Kind::gather : Kind::reduce;
      for (const int member : lists.groups[static_cast<size_t>(group)])
        lists.ranks[static_cast<size_t>(member)].push_back({.kind = kind, .group = group, .sequence = sequence});
    }
  }
  return lists;
}

/// The groups of a mesh data x shard x stage, and `ties` groups of random stages: those of one shard coordinate, along `data`, too.
/// @param lengths of the axes; rank = (data * shards + shard) * stages + stage
inline std::vector<std::vector<int>> mesh_groups(std::mt19937& random, const std::vector<int>& lengths, int ties) {
  const auto rank_of = [&](int data, int shard, int stage) { return (data * lengths[1] + shard) * lengths[2] + stage; };
  std::vector<std::vector<int>> groups;
  for (int stage = 0; stage < lengths[2]; ++stage) {
    for (int data = 0; data < lengths[0]; ++data) {
      groups.emplace_back();
      for (int shard = 0; shard < lengths[1]; ++shard) groups.back().push_back(rank_of(data, shard, stage));
    }
    for (int shard = 0; shard < lengths[1]; ++shard) {
      groups.emplace_back();
      for (int data = 0; data < lengths[0]; ++data) groups.back().push_back(rank_of(data, shard, stage));
    }
  }
  for (int tie = 0; tie < ties; ++tie) {
    std::set<int> stages;
    for (int i = 0; i < 3; ++i) stages.insert(static_cast<int>(random() % static_cast<unsigned>(lengths[2])));
    for (int shard = 0; shard < lengths[1]; ++shard) {
      groups.emplace_back();
      for (int data = 0; data < lengths[0]; ++data) {
        for (const int stage : stages) groups.back().push_back(rank_of(data, shard, stage));
      }
    }
  }
  return groups;
}

}  // namespace tw::pipeline::test
