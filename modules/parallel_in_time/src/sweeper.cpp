// SPDX-License-Identifier: Apache-2.0
#include "sweeper.hpp"

#include <ATen/ops/empty_like.h>

#include <tw/base/clock.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel {

/// A sweep in progress.
class Sweeper::Run {
 public:
  Run(Sweeper& sweeper, const SweepTask& task)
      : s_(sweeper), task_(task), level_(s_.plan_.level(task.level)), actions_(plan_sweep(s_.plan_, task.level, task.kind, s_.comm_.rank())) {}

  void execute() {
    post_receives();
    for (const Action& action : actions_) {
      using enum Action::Kind;
      switch (action.kind) {
        case send_point: send(known_ && known_point_ == action.point ? *known_ : task_.starts->at(action.point), action.peer); break;
        case send_result: send(row_of_last_end(), action.peer); break;
        case receive_point: know(action.point, receive()); break;
        case receive_result: arrive(action.point, receive()); break;
        case march: advance(action.runs); break;
      }
    }
  }

 private:
  void post_receives() {
    for (const Action& action : actions_) {
      if (action.kind != Action::Kind::receive_point && action.kind != Action::Kind::receive_result) continue;
      incoming_ = each(s_.example_, [](const at::Tensor& t) { return at::empty_like(t); });
      for (const at::Tensor& tensor : incoming_) receives_.push_back(irecv(s_.comm_, tensor, Rank(action.peer)));
    }
  }

  const State& receive() {
    const Stopwatch watch;
    wait_all(receives_);
    s_.report_.waited += watch.elapsed();
    return incoming_;
  }

  void send(const State& state, int peer) {
    for (const at::Tensor& tensor : clone(state)) {
      s_.sends_.push_back(isend(s_.comm_, tensor, Rank(peer)));
      ++s_.report_.messages[static_cast<size_t>(task_.level)];
      s_.report_.bytes += static_cast<int64_t>(tensor.nbytes());
    }
  }

  /// Remembers a value that is not stored, but that runs start from or that is sent on.
  void know(int64_t point, const State& value) {
    known_ = value;
    known_point_ = point;
  }

  /// Receives the results of steps at points of this rank.
  void arrive(int64_t point, const State& raw, int64_t count = 1, int64_t spacing = 1) {
    const State values = task_.right_sides ? sum(raw, task_.right_sides->at(point, count, spacing)) : raw;
    if (!starts_at(point) && count == 1) know(point, values);
    task_.take(point, count, spacing, values);
  }

  bool starts_at(int64_t point) const { return task_.kind == SweepKind::each || level_.is_c_point(point); }

  State starts_of(const Runs& runs) const {
    if (!known_ || known_point_ != runs.first) return task_.starts->at(runs.first, runs.count, runs.spacing);
    return runs.count == 1 ? *known_ : concatenate({*known_, task_.starts->at(runs.begin(1), runs.count - 1, runs.spacing)});
  }

  /// All points inside a run belong to this rank.
  Propagator::Between between(const Runs& runs) const {
    if (!task_.right_sides && !task_.wants_all) return {};
    return [this, runs](int64_t j, const State& raw) {
      const int64_t point = runs.first + j + 1;
      expect_states(raw, runs, j + 1);
      State values = task_.right_sides ? sum(raw, task_.right_sides->at(point, runs.count, runs.spacing)) : raw;
      if (task_.wants_all) task_.take(point, runs.count, runs.spacing, values);
      return values;
    };
  }

  void advance(const Runs& runs) {
    ends_ = s_.propagator_.march({s_.plan_, task_.level, runs, task_.last}, starts_of(runs), between(runs));
    expect_states(ends_, runs, runs.length);
    s_.report_.steps[static_cast<size_t>(task_.level)] += runs.count * runs.length;
    // All ends except the last are C-points of this rank.
    const int64_t last = runs.count - 1;
    const bool homed = s_.plan_.home(task_.level, runs.end(last)) == s_.comm_.rank();
    const bool alike = homed && starts_at(runs.end(0)) == starts_at(runs.end(last));
    const int64_t together = alike ? runs.count : last;
    if (together > 0) arrive(runs.end(0), rows(ends_, 0, together), together, runs.spacing);
    if (homed && !alike) arrive(runs.end(last), rows(ends_, last, 1));
  }

  /// States of other shapes would be broadcast silently, or sent to a rank that expects a different number of bytes.
  void expect_states(const State& states, const Runs& runs, int64_t steps) const {
    TW_EXPECTS(alike(states, s_.example_, 1) && !states.empty() && states.front().size(0) == runs.count, steps, " steps of level ", task_.level,
               " from point ", runs.first, ", made for ", runs.count, " states at once, returned ", describe(states), ", expected a stack of ",
               describe(row(s_.example_, 0)), ": a step must keep the shapes and dtypes of its state");
  }

  State row_of_last_end() const { return rows(ends_, ends_.front().size(0) - 1, 1); }

  Sweeper& s_;
  const SweepTask& task_;
  const Level& level_;
  std::vector<Action> actions_;
  State incoming_;
  std::vector<Work> receives_;
  std::optional<State> known_;
  int64_t known_point_ = -1;
  State ends_;  // results of the last march
};

Sweeper::Sweeper(const Communicator& comm, const LevelPlan& plan, Propagator& propagator, const State& example, Report& report)
    : comm_(comm),
      plan_(plan),
      propagator_(propagator),
      example_(each(example, [](const at::Tensor& t) { return at::empty_like(t, at::MemoryFormat::Contiguous).unsqueeze(0); })),
      report_(report) {}

void Sweeper::run(const SweepTask& task) {
  std::erase_if(sends_, [](Work& work) { return work.test(); });
  Run(*this, task).execute();
}

void Sweeper::finish() { wait_all(sends_); }

}  // namespace tw::layer_parallel
