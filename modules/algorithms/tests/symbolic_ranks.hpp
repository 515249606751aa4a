// SPDX-License-Identifier: Apache-2.0
// All ranks of a plan at once, with sets in place of numbers: each block records whose contributions are in it.
//
// A message moves when both ends have reached it, so that a plan which needs buffers, or never ends, is found. Messages between two ranks are matched
// in order.
#pragma once
#include "cost.hpp"

#include <algorithm>
#include <bitset>
#include <deque>
#include <map>
#include <stdexcept>
#include <tw/algorithms/plan.hpp>
#include <tw/base/concat.hpp>
#include <vector>

namespace tw::algorithms::testing {

constexpr int max_ranks = 64;

/// The sum of the contributions of `from` to `block`; in an all-to-all, what `from` sends to rank `block`.
struct Value {
  int64_t block = -1;  // -1: empty
  std::bitset<max_ranks> from;
  bool operator==(const Value&) const = default;
};

/// @throws std::logic_error, naming the rank and the step, if a plan does something illegal.
class SymbolicRanks {
 public:
  SymbolicRanks(Algorithm algorithm, const Task& task) : task_(task), ranks_(static_cast<size_t>(task.ranks)) {
    for (int rank = 0; rank < task.ranks; ++rank) {
      Task own = task;
      own.rank = rank;
      of(rank).plan = make_plan(algorithm, own);
      fill(rank);
    }
  }

  void run() {
    for (int rank = 0; rank < task_.ranks; ++rank) begin_step(rank);
    while (move_messages()) {
    }
    for (int rank = 0; rank < task_.ranks; ++rank) {
      if (of(rank).step < of(rank).plan.steps.size()) fail(rank, "waits for ever");
    }
    for (const auto& [ends, messages] : sent_) {
      if (!messages.empty()) fail(ends.first, "sends what nobody receives");
    }
    for (int rank = 0; rank < task_.ranks; ++rank) expect_result(rank);
  }

  /// The cost of the busiest rank.
  Cost cost() const {
    Cost most{.blocks = ranks_[0].plan.blocks};
    for (const RankState& rank : ranks_) {
      most.rounds = std::max(most.rounds, rank.cost.rounds);
      most.sent = std::max(most.sent, rank.cost.sent);
      most.received = std::max(most.received, rank.cost.received);
      most.reduced = std::max(most.reduced, rank.cost.reduced);
    }
    return most;
  }

  Plan& plan(int rank) { return of(rank).plan; }

 private:
  using Cell = std::pair<Area, int64_t>;

  struct RankState {
    Plan plan;
    std::map<Cell, Value> memory;
    size_t step = 0;
    size_t in_flight = 0;  // messages of the step in flight
    int64_t ready_at = 0;  // in rounds
    int64_t ends_at = 0;
    Cost cost;
  };
  struct End {  // of a message that has started
    Run run;
    int64_t at;
  };

  RankState& of(int rank) { return ranks_.at(static_cast<size_t>(rank)); }

  [[noreturn]] void fail(int rank, const std::string& what) {
    throw std::logic_error(concat("rank ", rank, " of ", task_.ranks, " in step ", of(rank).step, " ", what));
  }

  bool is_own_block(Area area) const {
    return (task_.collective == Collective::allgather && area == Area::input) ||
           (task_.collective == Collective::reduce_scatter && area == Area::output);
  }

  void fill(int rank) {
    const auto put = [&](Area area, int64_t block, int64_t name) {
      of(rank).memory[{area, block}] = {name, std::bitset<max_ranks>().set(static_cast<size_t>(rank))};
    };
    const int64_t blocks = of(rank).plan.blocks;
    switch (task_.collective) {
      case Collective::allreduce:
        for (int64_t i = 0; i < blocks; ++i) put(Area::output, i, i);
        break;
      case Collective::broadcast:
        for (int64_t i = 0; rank == task_.root && i < blocks; ++i) put(Area::output, i, i);
        break;
      case Collective::allgather: put(Area::input, rank, rank); break;
      case Collective::barrier: break;
      default:  // reduce, reduce_scatter, alltoall
        for (int64_t i = 0; i < blocks; ++i) put(Area::input, i, i);
    }
  }

  std::vector<Cell> cells(int rank, const Run& run) {
    const Plan& plan = of(rank).plan;
    const bool inside = run.area == Area::scratch ? run.slot >= 0 && run.slot + run.count <= plan.scratch_slots
                                                  : run.block >= 0 && run.block + run.count <= plan.blocks;
    if (run.count < 0 || !inside) fail(rank, "leaves its memory");
    if (is_own_block(run.area) && (run.block != rank || run.count != 1)) fail(rank, "has one block there, its own");
    std::vector<Cell> all;
    for (int64_t i = 0; i < run.count; ++i) all.push_back({run.area, (run.area == Area::scratch ? run.slot : run.block) + i});
    return all;
  }

  std::vector<Value> read(int rank, const Run& run) {
    std::vector<Value> values;
    for (const Cell& cell : cells(rank, run)) {
      values.push_back(of(rank).memory[cell]);
      if (values.back().block < 0) fail(rank, "reads what nobody wrote");
      const int64_t named = run.block + static_cast<int64_t>(values.size()) - 1;
      if (task_.collective != Collective::alltoall && values.back().block != named) fail(rank, "takes one block for another");
    }
    return values;
  }

  void write(int rank, const Run& run, const std::vector<Value>& values) {
    const std::vector<Cell> to = cells(rank, run);
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i].first == Area::input) fail(rank, "writes into its input");
      of(rank).memory[to[i]] = values[i];
    }
  }

  void begin_step(int rank) {
    RankState& mine = of(rank);
    while (mine.step < mine.plan.steps.size()) {
      const Step& step = mine.plan.steps[mine.step];
      expect_apart(rank, step);
      for (const Message& message : step.sends) sent_[{rank, message.peer}].push_back({message.run, mine.ready_at});
      for (const Message& message : step.receives) received_[{message.peer, rank}].push_back({message.run, mine.ready_at});
      mine.in_flight = step.sends.size() + step.receives.size();
      mine.ends_at = mine.ready_at;
      if (mine.in_flight > 0) return;
      end_step(rank);
    }
  }

  // Received data must not overlap any other memory of the step.
  void expect_apart(int rank, const Step& step) {
    std::vector<Cell> received, all;
    for (const Message& message : step.receives) {
      for (const Cell& cell : cells(rank, message.run)) received.push_back(cell);
    }
    all = received;
    for (const Message& message : step.sends) {
      for (const Cell& cell : cells(rank, message.run)) {
        if (std::find(received.begin(), received.end(), cell) != received.end()) fail(rank, "receives where it sends from");
      }
    }
    std::sort(all.begin(), all.end());
    if (std::adjacent_find(all.begin(), all.end()) != all.end()) fail(rank, "receives twice in one place");
    for (const auto* messages : {&step.sends, &step.receives}) {
      for (const Message& message : *messages) {
        if (message.peer < 0 || message.peer >= task_.ranks || message.peer == rank) fail(rank, "speaks with nobody");
      }
    }
  }

  void end_step(int rank) {
    RankState& mine = of(rank);
    for (const LocalOperation& operation : mine.plan.steps[mine.step].local_operations) {
      std::vector<Value> values = read(rank, operation.a);
      if (operation.to.count != operation.a.count) fail(rank, "makes of some blocks others");
      if (operation.kind == LocalOperation::Kind::reduce) {
        const std::vector<Value> others = read(rank, operation.b);
        if (others.size() != values.size()) fail(rank, "adds what is not alike");
        for (size_t i = 0; i < values.size(); ++i) {
          if (values[i].block != others[i].block) fail(rank, "adds different blocks");
          if ((values[i].from & others[i].from).any()) fail(rank, "adds a contribution twice");
          values[i].from |= others[i].from;
        }
        mine.cost.reduced += operation.a.count;
      }
      write(rank, operation.to, values);
    }
    mine.ready_at = mine.ends_at;
    mine.cost.rounds = mine.ready_at;
    ++mine.step;
  }

  // True if any message moved.
  bool move_messages() {
    bool any = false;
    for (auto& [ends, sends] : sent_) {
      std::deque<End>& receives = received_[ends];
      while (!sends.empty() && !receives.empty()) {
        move(ends.first, ends.second, sends.front(), receives.front());
        sends.pop_front();
        receives.pop_front();
        any = true;
      }
    }
    for (int rank = 0; rank < task_.ranks; ++rank) {
      RankState& mine = of(rank);
      if (mine.step < mine.plan.steps.size() && mine.in_flight == 0) {
        end_step(rank);
        begin_step(rank);
      }
    }
    return any;
  }

  void move(int from, int to, const End& send, const End& receive) {
    if (send.run.count != receive.run.count) fail(to, "receives another number of blocks than is sent");
    if (task_.collective != Collective::alltoall && send.run.block != receive.run.block) fail(to, "receives other blocks than are sent");
    write(to, receive.run, read(from, send.run));
    const int64_t end = std::max(send.at, receive.at) + 1;
    for (const int rank : {from, to}) {
      of(rank).ends_at = std::max(of(rank).ends_at, end);
      --of(rank).in_flight;
    }
    of(from).cost.sent += send.run.count;
    of(to).cost.received += send.run.count;
  }

  void expect_result(int rank) {
    std::bitset<max_ranks> all;
    for (int i = 0; i < task_.ranks; ++i) all.set(static_cast<size_t>(i));
    const auto only = [](int64_t source) { return std::bitset<max_ranks>().set(static_cast<size_t>(source)); };
    std::map<Cell, Value> before;
    std::swap(before, of(rank).memory);
    fill(rank);
    for (const auto& [cell, value] : of(rank).memory) {
      if (cell.first == Area::input && before[cell] != value) fail(rank, "has lost its input");
    }
    std::swap(before, of(rank).memory);
    for (int64_t block = 0; block < of(rank).plan.blocks; ++block) {
      Value expected{block, all};
      switch (task_.collective) {
        case Collective::broadcast: expected.from = only(task_.root); break;
        case Collective::allgather: expected.from = only(block); break;
        case Collective::alltoall: expected = {rank, only(block)}; break;
        case Collective::reduce_scatter:
          if (block != rank) continue;
          break;
        case Collective::reduce:
          if (rank != task_.root) continue;
          break;
        default: break;
      }
      if (of(rank).memory[{Area::output, block}] != expected) fail(rank, concat("ends with a wrong block ", block));
    }
  }

  const Task task_;
  std::vector<RankState> ranks_;
  std::map<std::pair<int, int>, std::deque<End>> sent_, received_;  // by sender and receiver
};

}  // namespace tw::algorithms::testing
