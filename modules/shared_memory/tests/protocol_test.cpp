// SPDX-License-Identifier: Apache-2.0
// A model checker: runs short sequences of collectives in every order in which the ranks' actions can interleave, one element at a time.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "symbolic_node.hpp"

namespace protocol_test {

using tw::Collective;
using tw::concat;
using namespace tw::shared_memory;
using tw::shared_memory::testing::Action;
using tw::shared_memory::testing::Request;
using tw::shared_memory::testing::SymbolicNode;
using Programs = std::vector<std::vector<Action>>;

struct Outcome {
  std::string violation;  // empty: none
  size_t states = 0;
};

// The programs were recorded in one order of the ranks, with correct results. It is enough that every read returns the recorded value in every order:
// then every write repeats its recorded value, and every result is correct. (The first differing read is found, because everything before it is as
// recorded.) Cells used by one rank only, and cells never written, do not affect this and are left out of the state.
class Explorer {
 public:
  explicit Explorer(const Programs& programs) {
    std::map<std::pair<int, int64_t>, std::pair<std::set<int>, bool>> uses;  // by owner and cell: its users, and whether any writes
    for_each_access(programs, [&](int rank, const Action& action) {
      auto& [users, written] = uses[{action.rank, action.cell}];
      users.insert(rank);
      written |= action.kind == Action::Kind::write;
    });
    std::map<std::pair<int, int64_t>, int> cells;
    for (const auto& [cell, use] : uses) {
      if (use.first.size() > 1 && use.second) cells.emplace(cell, static_cast<int>(cells.size()));
    }
    std::map<int, int> values{{0, 0}};
    for (const std::vector<Action>& program : programs) {
      std::vector<Action>& kept = programs_.emplace_back();
      std::vector<uint64_t>& posts = posts_.emplace_back(1, 0);
      for (Action action : program) {
        if (action.kind == Action::Kind::read || action.kind == Action::Kind::write) {
          const auto cell = cells.find({action.rank, action.cell});
          if (cell == cells.end()) continue;
          action.cell = cell->second;
          action.value = values.try_emplace(action.value, static_cast<int>(values.size())).first->second;
        }
        posts.push_back(posts.back() + (action.kind == Action::Kind::post ? 1 : 0));
        kept.push_back(action);
      }
    }
    if (values.size() > 256) throw std::logic_error("too many values for a byte each");
    start_.resize(2 * programs.size() + cells.size());
  }

  // Depth first, each state once.
  Outcome run() {
    std::vector<const State*> open{&*came_from_.emplace(start_, nullptr).first};
    while (!open.empty()) {
      const State& state = *open.back();
      open.pop_back();
      bool moved = false;
      bool ended = true;
      for (size_t rank = 0; rank < programs_.size(); ++rank) {
        if (next(state.first, rank) == programs_[rank].size()) continue;
        ended = false;
        const Action& action = programs_[rank][next(state.first, rank)];
        if (!enabled(state.first, action)) continue;
        moved = true;
        std::string after = state.first;
        char& cell = after[2 * programs_.size() + static_cast<size_t>(action.cell)];
        if (action.kind == Action::Kind::write) cell = static_cast<char>(action.value);
        if (action.kind == Action::Kind::read && cell != static_cast<char>(action.value)) {
          return {concat("a wrong value in collective ", action.call, ":", history(state), describe(rank, action)), came_from_.size()};
        }
        set_next(after, rank, next(state.first, rank) + 1);
        const auto [found, is_new] = came_from_.emplace(std::move(after), &state);
        if (is_new) open.push_back(&*found);
      }
      if (!moved && !ended) return {"deadlock:" + history(state), came_from_.size()};
    }
    return {"", came_from_.size()};
  }

 private:
  using State = std::pair<const std::string, const void*>;  // each rank's progress and the memory's content; the previous State

  template <class Visit>
  static void for_each_access(const Programs& programs, const Visit& visit) {
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      for (const Action& action : programs[rank]) {
        if (action.kind == Action::Kind::read || action.kind == Action::Kind::write) visit(static_cast<int>(rank), action);
      }
    }
  }

  // A state: two bytes per rank for the next action, then one byte per cell.
  static size_t next(const std::string& state, size_t rank) {
    return static_cast<size_t>(static_cast<uint8_t>(state[2 * rank])) * 256 + static_cast<uint8_t>(state[2 * rank + 1]);
  }
  static void set_next(std::string& state, size_t rank, size_t action) {
    state[2 * rank] = static_cast<char>(action / 256);
    state[2 * rank + 1] = static_cast<char>(action % 256);
  }

  bool enabled(const std::string& state, const Action& action) const {
    if (action.kind != Action::Kind::guard && action.kind != Action::Kind::wait) return true;
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      const bool concerned = action.rank < 0 || static_cast<size_t>(action.rank) == rank;
      if (concerned && posts_[rank][next(state, rank)] < action.step) return false;
    }
    return true;
  }

  static std::string describe(size_t rank, const Action& action) {
    const std::string cell = concat(" cell ", action.cell, " of rank ", action.rank);
    switch (action.kind) {
      case Action::Kind::post: return concat("\n  rank ", rank, " posts");
      case Action::Kind::read: return concat("\n  rank ", rank, " reads", cell);
      case Action::Kind::write: return concat("\n  rank ", rank, " writes", cell);
      default: return concat("\n  rank ", rank, " has seen step ", action.step);
    }
  }

  // The actions that led to `state`.
  std::string history(const State& state) const {
    const auto* before = static_cast<const State*>(state.second);
    if (before == nullptr) return "";
    size_t rank = 0;
    while (next(state.first, rank) == next(before->first, rank)) ++rank;
    return history(*before) + describe(rank, programs_[rank][next(before->first, rank)]);
  }

  Programs programs_;
  std::vector<std::vector<uint64_t>> posts_;  // by rank: its counter before each action
  std::string start_;
  std::unordered_map<std::string, const void*> came_from_;
};

Request make(Collective collective, int64_t count, int peer = -1, std::vector<bool> in_window = {}) {
  Request request;
  request.call.collective = collective;
  request.call.count = count;
  request.call.peer = peer;
  request.in_place = collective == Collective::allreduce || collective == Collective::broadcast;
  request.in_window = std::move(in_window);
  return request;
}

constexpr int64_t tensor_elements = 16;

Programs record(int ranks, const PlanOptions& options, const std::vector<Request>& requests) {
  SymbolicNode node(ranks, options, tensor_elements, /*records=*/true);
  for (const Request& request : requests) node.run(request);
  Programs programs;
  for (int rank = 0; rank < ranks; ++rank) programs.push_back(node.program(rank));
  return programs;
}

std::string violation(const Programs& programs) { return Explorer(programs).run().violation; }

// All kinds of `count` elements, more than the `ranks` elements of a slot, and some of other sizes: of one, two and more rounds; staged, direct, and
// staged because one tensor is outside the window.
std::vector<Request> all_kinds(int ranks, int64_t count) {
  const std::vector<bool> all(static_cast<size_t>(ranks), true);
  std::vector<bool> mixed = all;
  mixed.back() = false;
  return {make(Collective::barrier, 0),
          make(Collective::broadcast, 3 * ranks, 0),
          make(Collective::broadcast, count, ranks - 1),
          make(Collective::allreduce, count),
          make(Collective::allreduce, 1),  // flat
          make(Collective::reduce, count, 0),
          make(Collective::reduce, count, ranks - 1),
          make(Collective::allgather, 4),
          make(Collective::reduce_scatter, 2 * ranks),
          make(Collective::allreduce, count, -1, all),
          make(Collective::broadcast, count, 0, all),
          make(Collective::allgather, 4, -1, all),
          make(Collective::reduce_scatter, 2 * ranks, -1, all),
          make(Collective::allreduce, count, -1, mixed)};
}

PlanOptions options_for(int ranks) { return {.slot_elements = ranks, .flat_elements = 1, .alignment = 1}; }

TEST(Protocol, AnyThreeCollectivesOfTwoRanks) {
  for (const Request& first : all_kinds(2, 3)) {
    for (const Request& second : all_kinds(2, 3)) {
      for (const Request& third : all_kinds(2, 3)) {
        ASSERT_EQ(violation(record(2, options_for(2), {first, second, third})), "")
            << first.call.describe() << ", " << second.call.describe() << ", " << third.call.describe();
      }
    }
  }
}

TEST(Protocol, AnyTwoCollectivesOfThreeRanksAndTheFirstAgain) {
  size_t states = 0;
  for (const Request& first : all_kinds(3, 4)) {
    for (const Request& second : all_kinds(3, 4)) {
      const Outcome outcome = Explorer(record(3, options_for(3), {first, second, first})).run();
      ASSERT_EQ(outcome.violation, "") << first.call.describe() << ", " << second.call.describe();
      states += outcome.states;
    }
  }
  EXPECT_GT(states, 1000000U);  // otherwise the search was too small
}

TEST(Protocol, AnyCollectiveOfFourRanksTwice) {
  for (const Request& request : all_kinds(4, 5)) {
    if (request.call.collective == Collective::allgather) continue;  // half a million states each
    const Outcome outcome = Explorer(record(4, options_for(4), {request, request})).run();
    EXPECT_EQ(outcome.violation, "") << request.call.describe();
  }
}

TEST(Protocol, BroadcastsOfManyRoundsFromDifferentRoots) {
  for (const int64_t slot_elements : {1, 2, 4}) {
    const std::vector<Request> requests{make(Collective::broadcast, 6, 0), make(Collective::broadcast, 5, 2), make(Collective::allreduce, 3)};
    EXPECT_EQ(violation(record(3, {.slot_elements = slot_elements}, requests)), "");
  }
}

// The tests below check that the checker finds errors.

Programs without(Programs programs, int rank, size_t index) {
  auto& program = programs[static_cast<size_t>(rank)];
  program.erase(program.begin() + static_cast<int64_t>(index));
  return programs;
}

// Removes each action of kind `kind` in turn from the first of two equal collectives, and expects the checker to notice. Every rank has a part in
// every round; otherwise some waits would be redundant.
void expect_all_needed(Action::Kind kind) {
  for (const int ranks : {2, 3}) {
    for (const Request& request : all_kinds(ranks, 2 * ranks)) {
      const Programs programs = record(ranks, options_for(ranks), {request, request});
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& program = programs[static_cast<size_t>(rank)];
        for (size_t i = 0; i < program.size() && program[i].call == 0; ++i) {
          if (program[i].kind != kind) continue;
          EXPECT_NE(violation(without(programs, rank, i)), "") << request.call.describe() << ", rank " << rank << ", action " << i;
        }
      }
    }
  }
}

TEST(ProtocolChecker, NoticesEveryMissingWait) { expect_all_needed(Action::Kind::wait); }

TEST(ProtocolChecker, NoticesEveryMissingPost) { expect_all_needed(Action::Kind::post); }

TEST(ProtocolChecker, NoticesABroadcastThatDoesNotWaitBeforeItRewritesItsSlot) {
  // In the third round the root writes to the first round's slot.
  const Programs programs = record(3, {.slot_elements = 2}, {make(Collective::broadcast, 6, 0)});
  ASSERT_EQ(violation(programs), "");
  std::vector<size_t> guards;
  for (size_t i = 0; i < programs[0].size(); ++i) {
    if (programs[0][i].kind == Action::Kind::guard) guards.push_back(i);
  }
  ASSERT_EQ(guards.size(), 3U);
  EXPECT_NE(violation(without(programs, 0, guards.back())), "");
}

TEST(ProtocolChecker, NoticesThatOneSlotIsNotEnough) {
  const PlanOptions options{.slot_elements = 2};
  const SymbolicNode node(2, options, tensor_elements);
  Programs programs = record(2, options, {make(Collective::allgather, 4)});
  ASSERT_EQ(violation(programs), "");
  for (std::vector<Action>& program : programs) {
    for (Action& action : program) {
      if (action.cell >= node.slot_cell(1) && action.cell < node.slot_cell(2)) action.cell -= options.slot_elements;
    }
  }
  EXPECT_NE(violation(programs), "");
}

TEST(ProtocolChecker, NoticesAPostBeforeTheData) {
  const Programs programs = record(2, {.slot_elements = 4}, {make(Collective::allreduce, 4)});
  const auto is_post = [](const Action& action) { return action.kind == Action::Kind::post; };
  for (size_t i = 1; i < programs[0].size(); ++i) {
    if (!is_post(programs[0][i])) continue;
    ASSERT_EQ(programs[0][i - 1].kind, Action::Kind::write);  // the header, or this rank's part of the result
    Programs broken = programs;
    std::swap(broken[0][i - 1], broken[0][i]);
    EXPECT_NE(violation(broken), "");
  }
}

}  // namespace protocol_test
