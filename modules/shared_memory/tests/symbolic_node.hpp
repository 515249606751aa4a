// SPDX-License-Identifier: Apache-2.0
// Plans executed on symbolic memory, step by step as `Exchange` does on bytes: each element records what was reduced into it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/shared_memory/plan.hpp>
#include <vector>

namespace tw::shared_memory::testing {

/// An error in a plan.
class BrokenPlan : public std::logic_error {
  using std::logic_error::logic_error;
};

/// One collective of all ranks.
struct Request {
  Call call;
  bool in_place = false;             ///< the output is the input
  std::vector<bool> in_window = {};  ///< by rank: its input is in a window; empty: none is
};

/// One atomic action of a rank.
struct Action {
  enum class Kind : uint8_t { guard, wait, post, read, write };
  Kind kind = Kind::post;
  int call = 0;       ///< index of the collective in the sequence
  int rank = -1;      ///< wait: the rank waited for, -1: all. read, write: owner of the memory
  uint64_t step = 0;  ///< guard, wait: value that the counters must reach
  int64_t cell = 0;   ///< read, write: position in that memory
  int value = 0;      ///< read: value in a correct run. write: value written
};

/// Symbolic values as numbers: equal values have equal numbers. 0 is memory without a value.
class Values {
 public:
  Values(int ranks, int64_t elements) : ranks_(ranks), elements_(elements) {}
  int input(int call, int rank, int64_t element) const { return static_cast<int>(1 + (call * ranks_ + rank) * (elements_ + 2) + element); }
  int header(int call, int rank, bool in_window) const { return input(call, rank, elements_ + (in_window ? 1 : 0)); }
  int reduced(const std::vector<int>& operands) { return reduced_.try_emplace(operands, -1 - static_cast<int>(reduced_.size())).first->second; }

 private:
  int ranks_;
  int64_t elements_;
  std::map<std::vector<int>, int> reduced_;
};

/// The ranks of a node. Each rank's memory is its input tensor, its output tensor, two slots and two headers, in cells of one element.
class SymbolicNode {
 public:
  /// @param tensor_elements of the largest input or output. @param records whether program() will be called.
  SymbolicNode(int ranks, const PlanOptions& options, int64_t tensor_elements, bool records = false)
      : options_(options), records_(records), tensor_elements_(tensor_elements), ranks_(static_cast<size_t>(ranks)), values_(ranks, tensor_elements) {
    for (Rank& rank : ranks_) rank.cells.resize(static_cast<size_t>(header_cell(2)));
  }

  int ranks() const noexcept { return static_cast<int>(ranks_.size()); }
  int64_t slot_cell(int slot) const noexcept { return 2 * tensor_elements_ + slot * options_.slot_elements; }
  int64_t header_cell(int slot) const noexcept { return slot_cell(2) + slot; }
  /// The actions of `rank` so far.
  const std::vector<Action>& program(int rank) const { return ranks_[static_cast<size_t>(rank)].program; }

  /// Runs a collective, each rank as far as it can go before the next, and checks every result. @throws BrokenPlan
  void run(const Request& request, bool last_rank_first = false) {
    request_ = request;
    request_.in_window.resize(ranks_.size(), false);
    if (std::max(input_elements(), output_elements()) > tensor_elements_) fail(concat("a tensor of more than ", tensor_elements_));
    for (int rank = 0; rank < ranks(); ++rank) start(rank);
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.done; })) {
      bool moved = false;
      for (int i = 0; i < ranks(); ++i) moved |= advance(last_rank_first ? ranks() - 1 - i : i);
      if (!moved) fail("nobody can go on");
    }
    ++call_;
  }

 private:
  struct Rank {
    std::vector<int> cells;
    std::vector<Action> program;
    uint64_t step = 0;
    uint64_t guard = 0;
    int slot = 0;
    std::optional<Plan> plan = {};
    Mode mode = Mode::staged;
    int64_t round = 0;
    std::vector<Step> steps = {};
    size_t next_step = 0;
    bool posted = false;
    bool done = false;
  };

  [[noreturn]] void fail(const std::string& problem) const {
    throw BrokenPlan(concat(request_.call.describe(), " over ", ranks(), " ranks, slots of ", options_.slot_elements, ": ", problem));
  }

  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  int64_t input_elements() const { return request_.call.count; }

  int64_t output_elements() const {
    switch (request_.call.collective) {
      case Collective::allgather: return request_.call.count * ranks();
      case Collective::reduce_scatter: return request_.call.count / ranks();
      default: return request_.call.count;
    }
  }

  void start(int rank) {
    for (int64_t i = 0; i < input_elements(); ++i) write(rank, rank, i, values_.input(call_, rank, i));
    if (!request_.in_place) {
      for (int64_t i = 0; i < output_elements(); ++i) write(rank, rank, tensor_elements_ + i, 0);
    }
    at(rank).done = false;
    begin(rank, request_.in_window[static_cast<size_t>(rank)] ? Mode::direct : Mode::staged);
  }

  void begin(int rank, Mode mode) {
    Rank& me = at(rank);
    me.plan.emplace(request_.call, mode, rank, ranks(), options_);
    me.mode = mode;
    me.round = 0;
    me.steps = me.plan->round(0);
    me.next_step = 0;
  }

  /// @return whether anything was done
  bool advance(int rank) {
    Rank& me = at(rank);
    bool moved = false;
    while (!me.done) {
      for (; me.next_step < me.steps.size(); moved = true) {
        if (!execute(rank)) return moved;
      }
      if (++me.round < me.plan->rounds()) {
        me.steps = me.plan->round(me.round);
        me.next_step = 0;
      } else {
        me.done = true;
        check_result(rank);
      }
    }
    return moved;
  }

  bool all_reached(uint64_t step) const {
    return std::all_of(ranks_.begin(), ranks_.end(), [step](const Rank& rank) { return rank.step >= step; });
  }

  /// Executes the next step and moves on; false if it would block.
  bool execute(int rank) {
    Rank& me = at(rank);
    const Step step = me.steps[me.next_step];
    switch (step.kind) {
      case Step::Kind::next_round:
        if (!all_reached(me.guard)) return false;
        record(rank, {.kind = Action::Kind::guard, .step = me.guard});
        me.guard = me.step + 1;
        me.slot = 1 - me.slot;
        break;
      case Step::Kind::arrive: return arrive(rank);
      case Step::Kind::post: post(rank); break;
      case Step::Kind::wait:
        if (step.rank >= 0 ? at(step.rank).step < me.step : !all_reached(me.step)) return false;
        record(rank, {.kind = Action::Kind::wait, .rank = step.rank, .step = me.step});
        break;
      case Step::Kind::copy:
        for (int64_t i = 0; i < step.count; ++i) copy(rank, step, i);
        break;
      case Step::Kind::reduce:
        for (int64_t i = 0; i < step.count; ++i) reduce(rank, step, i);
        break;
    }
    ++me.next_step;
    return true;
  }

  bool arrive(int rank) {
    Rank& me = at(rank);
    if (!me.posted) {
      write(rank, rank, header_cell(me.slot), values_.header(call_, rank, me.mode == Mode::direct));
      post(rank);
      me.posted = true;
    }
    if (!all_reached(me.step)) return false;
    me.posted = false;
    ++me.next_step;
    record(rank, {.kind = Action::Kind::wait, .step = me.step});
    int direct = 0;
    for (int other = 0; other < ranks(); ++other) {
      const int header = read(rank, other, header_cell(me.slot));
      if (header == values_.header(call_, other, true)) {
        ++direct;
      } else if (header != values_.header(call_, other, false)) {
        fail(concat("rank ", rank, " reads a wrong header of rank ", other));
      }
    }
    if (direct > 0 && direct < ranks()) begin(rank, Mode::staged);
    return true;
  }

  void copy(int rank, const Step& step, int64_t i) {
    const int64_t from = cell(step.from, at(rank).slot, step.from_begin + i);
    const int64_t to = cell(step.to, at(rank).slot, step.to_begin + i);
    if (step.from == Area::input && step.rank != rank && at(rank).mode == Mode::staged) fail("a staged copy from another rank's tensor");
    if (step.to == Area::input) fail("a copy to an input");
    if (step.rank != rank || from != to) write(rank, rank, to, read(rank, step.rank, from));
  }

  void reduce(int rank, const Step& step, int64_t i) {
    const Rank& me = at(rank);
    const int64_t theirs = cell(step.from, me.slot, step.from_begin + i);
    if (step.from == Area::input && me.mode == Mode::staged) fail("a staged reduction of other ranks' tensors");
    operands_.clear();
    for (int other = 0; other < ranks(); ++other) {
      operands_.push_back(read(rank, other, other == rank ? cell(Area::input, me.slot, step.own_begin + i) : theirs));
    }
    const int value = values_.reduced(operands_);
    if (step.spread == Step::Spread::everyone) {
      if (me.mode != Mode::direct || request_.call.collective != Collective::allreduce) fail("a write to other ranks' inputs");
      for (int other = 0; other < ranks(); ++other) {
        if (other != rank) write(rank, other, theirs, value);
      }
    }
    if (step.spread != Step::Spread::slot) write(rank, rank, cell(Area::output, me.slot, step.to_begin + i), value);
    if (step.spread == Step::Spread::slot || step.spread == Step::Spread::output_and_slot) {
      write(rank, rank, cell(Area::slot, me.slot, step.from_begin + i), value);
    }
  }

  int64_t cell(Area area, int slot, int64_t element) const {
    const int64_t elements = area == Area::slot ? options_.slot_elements : area == Area::input ? input_elements() : output_elements();
    if (element < 0 || element >= elements) fail(concat("element ", element, " of ", area == Area::slot ? "a slot" : "a tensor", " of ", elements));
    if (area == Area::slot) return slot_cell(slot) + element;
    return area == Area::input || request_.in_place ? element : tensor_elements_ + element;
  }

  void post(int rank) {
    ++at(rank).step;
    record(rank, {.kind = Action::Kind::post});
  }

  int read(int rank, int owner, int64_t cell) {
    const int value = at(owner).cells[static_cast<size_t>(cell)];
    record(rank, {.kind = Action::Kind::read, .rank = owner, .cell = cell, .value = value});
    return value;
  }

  void write(int rank, int owner, int64_t cell, int value) {
    at(owner).cells[static_cast<size_t>(cell)] = value;
    record(rank, {.kind = Action::Kind::write, .rank = owner, .cell = cell, .value = value});
  }

  void record(int rank, Action action) {
    if (!records_) return;
    action.call = call_;
    at(rank).program.push_back(action);
  }

  /// The expected element `i` of the output of `rank`.
  int expected(int rank, int64_t i) {
    const Call& call = request_.call;
    switch (call.collective) {
      case Collective::broadcast: return values_.input(call_, call.peer, i);
      case Collective::allgather: return values_.input(call_, static_cast<int>(i / call.count), i % call.count);
      case Collective::reduce:
        if (rank != call.peer) return request_.in_place ? values_.input(call_, rank, i) : 0;  // unchanged
        break;
      default: break;
    }
    const int64_t element = call.collective == Collective::reduce_scatter ? rank * output_elements() + i : i;
    operands_.clear();
    for (int other = 0; other < ranks(); ++other) operands_.push_back(values_.input(call_, other, element));
    return values_.reduced(operands_);
  }

  void check_result(int rank) {
    for (int64_t i = 0; i < output_elements(); ++i) {
      if (read(rank, rank, cell(Area::output, 0, i)) != expected(rank, i)) fail(concat("rank ", rank, " ends with a wrong element ", i));
    }
    for (int64_t i = 0; !request_.in_place && i < input_elements(); ++i) {
      if (read(rank, rank, i) != values_.input(call_, rank, i)) fail(concat("rank ", rank, " ends with another input in element ", i));
    }
  }

  PlanOptions options_;
  bool records_;
  int64_t tensor_elements_;
  std::vector<Rank> ranks_;
  Values values_;
  std::vector<int> operands_;  // of one reduction
  Request request_;
  int call_ = 0;
};

}  // namespace tw::shared_memory::testing
