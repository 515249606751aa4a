// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/cycle.hpp>

#include <tw/base/contract.hpp>

namespace tw::layer_parallel {
namespace {

using enum Phase::Kind;

class Planner {
 public:
  Planner(int levels, const CycleOptions& options) : coarsest_(levels - 1), options_(options) {}

  void descend_and_solve(int level) {
    for (; level < coarsest_; ++level) {
      for (int i = 0; i < options_.relaxations.at(level); ++i) add(relax, level);
      add(restrict, level);
    }
    add(solve, coarsest_);
  }

  void inject_and_solve() {
    for (int level = 0; level < coarsest_; ++level) add(inject, level);
    add(solve, coarsest_);
  }

  /// From the coarsest level up to `top`.
  void ascend(int top, int v_cycles) {
    for (int level = coarsest_; level > top; --level) {
      if (level < coarsest_) add(fill, level);
      add(correct, level - 1);
      for (int i = 0; i < v_cycles && level - 1 > top; ++i) {
        descend_and_solve(level - 1);
        ascend(level - 1, 0);
      }
    }
  }

  std::vector<Phase> take() { return std::move(phases_); }

 private:
  void add(Phase::Kind kind, int level) { phases_.push_back({kind, level}); }

  int coarsest_;
  const CycleOptions& options_;
  std::vector<Phase> phases_;
};

}  // namespace

void visit(CycleOptions& options, OptionVisitor& visitor) {
  visit_field(visitor, "relaxations", options.relaxations, at_least(0),
              {.meaning = "relaxations before each restriction, by level; 0: F-, 1: FCF-relaxation"});
  visitor.field("skip_downcycle", options.skip_downcycle, {.meaning = "begin the first iteration on the coarsest level"});
  visitor.field("f_cycle", options.f_cycle, at_least(0),
                {.meaning = "F-cycles with this many V-cycles on each level during the ascent; 0: plain V-cycles"});
}

void CycleOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!relaxations.values().empty(), "relaxations needs at least one value");
}

const char* name_of(Phase::Kind kind) {
  switch (kind) {
    case relax: return "relax";
    case restrict: return "restrict";
    case inject: return "inject";
    case solve: return "solve";
    case fill: return "fill";
    case correct: return "correct";
  }
  return "?";
}

std::vector<Phase> plan_cycle(int levels, const CycleOptions& options, bool first) {
  Planner planner(levels, options);
  if (first && options.skip_downcycle) {
    planner.inject_and_solve();
  } else {
    planner.descend_and_solve(0);
  }
  planner.ascend(0, options.f_cycle);
  return planner.take();
}

std::vector<Sweep> sweeps_of(const Phase& phase) {
  switch (phase.kind) {
    case relax: return {{phase.level, SweepKind::intervals}};
    case restrict: return {{phase.level, SweepKind::intervals}, {phase.level + 1, SweepKind::each}};
    case solve: return {{phase.level, SweepKind::all}};
    case fill: return {{phase.level, SweepKind::fill}};
    case inject:
    case correct: return {};
  }
  return {};
}

}  // namespace tw::layer_parallel
