// SPDX-License-Identifier: Apache-2.0
// Plans of levels and sweeps, compared with a naive simulation, for up to 64 ranks in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <tw/base/error.hpp>
#include <tw/planning/cycle.hpp>
#include <tw/planning/sweep.hpp>

namespace tw::layer_parallel {
namespace level_plan_test {

/// A value is a hash of the operations that produced it.
using Value = uint64_t;
Value mix(Value value, uint64_t what) { return (value ^ (what + 0x9e3779b97f4a7c15U)) * 0xff51afd7ed558ccdU + (value >> 31U); }
Value stored(int64_t point) { return mix(1, static_cast<uint64_t>(point)); }
Value stepped(Value from, int64_t step) { return mix(from, 1000 + static_cast<uint64_t>(step)); }
Value with_right_side(Value raw, int64_t point) { return mix(raw, 1000000 + static_cast<uint64_t>(point)); }

struct Outcome {
  std::map<int64_t, Value> values;  // results at points
  int64_t steps = 0;
  int64_t messages = 0;
};

bool starts_at(const Level& level, SweepKind kind, int64_t point) {
  return kind == SweepKind::each || (level.coarsest() ? point == 0 : point % level.coarsening == 0);
}

bool is_made(const Level& level, SweepKind kind, int64_t step) {
  const int64_t c = level.coarsening;
  switch (kind) {
    case SweepKind::intervals: return c > 0 && step / c < level.steps / c;
    case SweepKind::fill: return c == 0 || (step + 1) % c != 0;
    default: return true;
  }
}

/// One process that makes the steps in sequence.
Outcome one_process(const LevelPlan& plan, int l, SweepKind kind) {
  const Level& level = plan.level(l);
  Outcome outcome;
  Value value = 0;
  for (int64_t step = 0; step < level.steps; ++step) {
    if (starts_at(level, kind, step)) value = stored(step);
    if (!is_made(level, kind, step)) continue;
    value = with_right_side(stepped(value, step), step + 1);
    outcome.values[step + 1] = value;
    ++outcome.steps;
    outcome.messages += (plan.home(l, step) != plan.executor(l, step)) + (plan.home(l, step + 1) != plan.executor(l, step));
  }
  return outcome;
}

/// Every rank in turn proceeds as far as its messages allow. Ranks read stored values when they use them, and write those of C-points immediately.
Outcome all_ranks(const LevelPlan& plan, int l, SweepKind kind, std::string& problem) {
  const Level& level = plan.level(l);
  Outcome outcome;
  std::map<int64_t, Value> memory;  // values of all ranks; a rank accesses only points that belong to it
  for (int64_t point = 0; point <= level.steps; ++point) memory[point] = stored(point);
  std::map<std::pair<int, int>, std::deque<Value>> messages;
  std::vector<std::vector<Action>> actions;
  std::vector<size_t> next(static_cast<size_t>(plan.ranks()), 0);
  std::vector<std::map<int64_t, Value>> known(static_cast<size_t>(plan.ranks()));
  for (int rank = 0; rank < plan.ranks(); ++rank) actions.push_back(plan_sweep(plan, l, kind, rank));

  const auto complain = [&](const char* what, int rank, int64_t point) {
    problem += std::string(what) + " on rank " + std::to_string(rank) + " at point " + std::to_string(point) + '\n';
  };
  const auto arrive = [&](int rank, int64_t point, Value raw) {
    if (plan.home(l, point) != rank) complain("a value that is not at home", rank, point);
    if (outcome.values.contains(point)) complain("a second value", rank, point);
    const Value value = with_right_side(raw, point);
    outcome.values[point] = value;
    if (starts_at(level, kind, point)) {
      if (kind != SweepKind::each) memory[point] = value;  // wrong if another step must still read the old value
    } else {
      known[static_cast<size_t>(rank)][point] = value;
    }
  };
  const auto value_of = [&](int rank, int64_t point) {
    auto& mine = known[static_cast<size_t>(rank)];
    if (mine.contains(point)) return mine[point];
    if (plan.home(l, point) != rank) complain("a value that never came", rank, point);
    if (!starts_at(level, kind, point)) complain("a start from an F-point", rank, point);
    return memory[point];
  };
  Value last_raw = 0;
  std::vector<Value> raw_of(static_cast<size_t>(plan.ranks()), 0);
  const auto perform = [&](int rank, const Action& action) {
    using enum Action::Kind;
    switch (action.kind) {
      case send_point:
      case send_result:
        messages[{rank, action.peer}].push_back(action.kind == send_point ? value_of(rank, action.point) : raw_of[static_cast<size_t>(rank)]);
        ++outcome.messages;
        return true;
      case receive_point:
      case receive_result: {
        auto& queue = messages[{action.peer, rank}];
        if (queue.empty()) return false;
        const Value value = queue.front();
        queue.pop_front();
        if (action.kind == receive_point) {
          known[static_cast<size_t>(rank)][action.point] = value;
        } else {
          arrive(rank, action.point, value);
        }
        return true;
      }
      case march: {
        std::vector<Value> ends;
        for (int64_t run = 0; run < action.runs.count; ++run) {
          Value value = value_of(rank, action.runs.begin(run));
          for (int64_t j = 0; j < action.runs.length; ++j) {
            const int64_t step = action.runs.begin(run) + j;
            if (plan.executor(l, step) != rank) complain("a step of another rank", rank, step);
            last_raw = stepped(value, step);
            if (j + 1 < action.runs.length) {
              if (plan.home(l, step + 1) != rank) complain("an inner point that is not at home", rank, step + 1);
              value = with_right_side(last_raw, step + 1);
              outcome.values[step + 1] = value;
            }
            ++outcome.steps;
          }
          ends.push_back(last_raw);
        }
        raw_of[static_cast<size_t>(rank)] = ends.back();
        for (int64_t run = 0; run < action.runs.count; ++run) {
          if (plan.home(l, action.runs.end(run)) == rank) {
            arrive(rank, action.runs.end(run), ends[static_cast<size_t>(run)]);
          } else if (run + 1 < action.runs.count) {
            complain("an early run that ends elsewhere", rank, action.runs.end(run));
          }
        }
        return true;
      }
    }
    return false;
  };

  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      auto& i = next[static_cast<size_t>(rank)];
      while (i < actions[static_cast<size_t>(rank)].size() && perform(rank, actions[static_cast<size_t>(rank)][i])) {
        ++i;
        moved = true;
      }
    }
  }
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    if (next[static_cast<size_t>(rank)] < actions[static_cast<size_t>(rank)].size()) complain("stuck", rank, -1);
  }
  for (const auto& [link, queue] : messages) {
    if (!queue.empty()) complain("a message that nobody received", link.first, -1);
  }
  return outcome;
}

struct Case {
  int64_t steps;
  int ranks;
  LevelOptions options;
};

std::string text_of(const Case& c) {
  std::string text = std::to_string(c.steps) + " steps, " + std::to_string(c.ranks) + " ranks, c =";
  for (const int64_t each : c.options.coarsening.values()) text += ' ' + std::to_string(each);
  return text;
}

void expect_simulation_agrees(const Case& c) {
  const std::vector<Level> levels = plan_levels(c.steps, c.options);
  for (const int64_t unit : {c.options.coarsening.at(0), int64_t{1}}) {
    for (const StepOwner owner : {StepOwner::left, StepOwner::right}) {
      const LevelPlan plan(levels, partition_steps(c.steps, c.ranks, unit), owner);
      for (int l = 0; l < plan.levels(); ++l) {
        for (const SweepKind kind : {SweepKind::intervals, SweepKind::fill, SweepKind::all, SweepKind::each}) {
          std::string problem;
          const Outcome serial = one_process(plan, l, kind);
          const Outcome parallel = all_ranks(plan, l, kind, problem);
          ASSERT_EQ(problem, "") << text_of(c) << ", level " << l << ", sweep " << static_cast<int>(kind);
          ASSERT_EQ(parallel.values, serial.values) << text_of(c) << ", level " << l << ", sweep " << static_cast<int>(kind);
          ASSERT_EQ(parallel.steps, serial.steps);
          ASSERT_EQ(parallel.messages, serial.messages) << text_of(c) << ", level " << l;
        }
      }
    }
  }
}

TEST(LevelPlan, HasTheWholeStepsOfTheLevelAbove) {
  const std::vector<Level> expected{{10, 1, 2}, {5, 2, 2}, {2, 4, 0}};
  EXPECT_EQ(plan_levels(10, {.levels = 3, .coarsening = 2}), expected);
  EXPECT_EQ(plan_levels(10, {.levels = 9, .coarsening = 2}), expected) << "min_coarse is 2";
  EXPECT_EQ(plan_levels(64, {.levels = 3, .coarsening = {16, 2}}), (std::vector<Level>{{64, 1, 16}, {4, 16, 2}, {2, 32, 0}}));
  EXPECT_EQ(plan_levels(1).size(), 1U);
  EXPECT_THROW(plan_levels(8, {.coarsening = 1}), ContractError);
  EXPECT_THROW(plan_levels(8, {.levels = 0}), ContractError);
  EXPECT_THROW(plan_levels(0), ContractError);
}

TEST(Partition, IsEvenInWholeIntervalsAndFollowsCosts) {
  EXPECT_EQ(partition_steps(64, 2, 4), (std::vector<int64_t>{0, 32, 64}));
  EXPECT_EQ(partition_steps(67, 2, 4), (std::vector<int64_t>{0, 32, 67}));
  EXPECT_EQ(partition_steps(12, 4, 4), (std::vector<int64_t>{0, 3, 6, 9, 12})) << "fewer intervals than ranks: single steps";
  EXPECT_EQ(partition_steps(2, 4, 1), (std::vector<int64_t>{0, 1, 1, 2, 2}));
  const std::vector<double> costs{9, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(partition_steps(8, 2, 1, costs), (std::vector<int64_t>{0, 1, 8}));
  EXPECT_EQ(partition_steps(8, 2, 2, costs), (std::vector<int64_t>{0, 2, 8}));
}

TEST(LevelPlan, HasWholeIntervalsOnItsGrid) {
  EXPECT_EQ(steps_on_grid(67, {.coarsening = 4}), 64);
  EXPECT_EQ(steps_on_grid(67, {.levels = 1, .coarsening = 4}), 67);
  EXPECT_EQ(steps_on_grid(7, {.coarsening = 4}), 7) << "two intervals would be needed: there is one level only";
  const LevelPlan plan = level_plan(67, 3, {.coarsening = 4}, StepOwner::right);
  EXPECT_EQ(plan.cuts(), (std::vector<int64_t>{0, 24, 44, 67}));
  EXPECT_EQ(plan.level(1).steps, 16);
  EXPECT_EQ(level_plan(3, 3, {}, StepOwner::left).cuts(), (std::vector<int64_t>{0, 1, 2, 3}));
}

/// Checks home, executor and range against their definitions, element by element.
TEST(LevelPlan, RangesAreThoseOfTheirDefinitions) {
  for (const int64_t steps : {1, 2, 7, 16, 53}) {
    for (const int ranks : {1, 2, 3, 5, 9, 64}) {
      for (const StepOwner owner : {StepOwner::left, StepOwner::right}) {
        const LevelPlan plan(plan_levels(steps, {.levels = 4, .coarsening = 2}), partition_steps(steps, ranks, 1), owner);
        for (int l = 0; l < plan.levels(); ++l) {
          for (int rank = 0; rank < ranks; ++rank) {
            for (int64_t k = 0; k < plan.level(l).steps; ++k) {
              EXPECT_EQ(plan.steps_of(l, rank).contains(k), plan.executor(l, k) == rank);
              const int64_t needed = owner == StepOwner::left ? k * plan.level(l).stride : (k + 1) * plan.level(l).stride - 1;
              EXPECT_EQ(plan.executor(l, k), plan.executor(0, needed));
            }
            for (int64_t k = 0; k <= plan.level(l).steps; ++k) {
              EXPECT_EQ(plan.points_of(l, rank).contains(k), plan.home(l, k) == rank);
              EXPECT_EQ(plan.home(l, k), plan.home(0, k * plan.level(l).stride)) << "points never move";
            }
            std::vector<int64_t> c_points;
            for (int64_t k = 0; k <= plan.level(l).steps; ++k) {
              if (plan.home(l, k) == rank && plan.level(l).is_c_point(k)) c_points.push_back(k);
            }
            const auto [first, count, spacing] = plan.c_points_of(l, rank);
            ASSERT_EQ(count, static_cast<int64_t>(c_points.size()));
            for (int64_t i = 0; i < count; ++i) EXPECT_EQ(first + i * spacing, c_points[static_cast<size_t>(i)]);
          }
        }
      }
    }
  }
}

// All sizes together take many minutes; `make accept ONLY=planning` runs them.
bool every_plan() { return std::getenv("TW_TEST_EVERY_PLAN") != nullptr; }

constexpr int64_t max_steps = 300;
constexpr int64_t max_ranks = 64;
constexpr int64_t coarsenings = 15;  // 2 to 16

void expect_simulation_agrees(int64_t steps, int64_t pair) {
  expect_simulation_agrees({steps, static_cast<int>(1 + pair % max_ranks), {.levels = 3, .coarsening = 2 + pair / max_ranks, .min_coarse = 1}});
}

/// Every number of steps, and every pair of a coarsening and a number of ranks.
TEST(Sweep, SimulatedRanksDoWhatOneProcessDoes) {
  constexpr int64_t pairs = max_ranks * coarsenings;
  if (every_plan()) {
    for (int64_t steps = 1; steps <= max_steps && !HasFailure(); ++steps) {
      for (int64_t pair = 0; pair < pairs; ++pair) expect_simulation_agrees(steps, pair);
    }
    return;
  }
  constexpr int64_t pairs_for_each = 7;   // 300 times this exceeds the number of pairs
  constexpr int64_t apart = 7 * 11 * 13;  // spreads neighbours in the schedule over the table; coprime to its size, so that no pair is left out
  static_assert(max_steps * pairs_for_each >= pairs && pairs % 7 != 0 && pairs % 11 != 0 && pairs % 13 != 0);
  for (int64_t i = 0; i < max_steps * pairs_for_each; ++i) expect_simulation_agrees(1 + i / pairs_for_each, i * apart % pairs);
}

/// Plans in which blocks are empty or shorter than an interval.
TEST(Sweep, SimulatedRanksDoWhatOneProcessDoesWithFewSteps) {
  for (int64_t steps = 1; steps <= 24; ++steps) {
    for (const int64_t c : {2, 3, 4, 7}) {
      for (const int ranks : {1, 2, 3, 4, 7, 16, 33}) expect_simulation_agrees({steps, ranks, {.levels = 3, .coarsening = c, .min_coarse = 1}});
    }
  }
}

TEST(Sweep, SimulatedRanksDoWhatOneProcessDoesOnManyAndUnevenLevels) {
  for (const int64_t steps : {5, 64, 96, 131, 300}) {
    for (const int ranks : {1, 2, 3, 6, 13, 64}) {
      expect_simulation_agrees({steps, ranks, {.levels = 6, .coarsening = 2, .min_coarse = 1}});
      expect_simulation_agrees({steps, ranks, {.levels = 4, .coarsening = {2, 5, 3}, .min_coarse = 1}});
    }
  }
}

/// With aligned blocks, a sweep over whole intervals sends one message over each border.
TEST(Sweep, SendsOneMessageOverEachBorder) {
  const LevelPlan plan(plan_levels(64, {.coarsening = 4}), partition_steps(64, 4, 4), StepOwner::left);
  for (int rank = 0; rank < 4; ++rank) {
    const SweepCost cost = cost_of(plan_sweep(plan, 0, SweepKind::intervals, rank));
    EXPECT_EQ(cost.steps, 16);
    EXPECT_EQ(cost.messages, rank < 3 ? 1 : 0);
  }
}

TEST(Cycle, VisitsLevelsInTheOrderOfItsKind) {
  using enum Phase::Kind;
  EXPECT_EQ(plan_cycle(2, {.relaxations = 1}, false), (std::vector<Phase>{{relax, 0}, {restrict, 0}, {solve, 1}, {correct, 0}}));
  EXPECT_EQ(plan_cycle(2, {.relaxations = 1}, true), (std::vector<Phase>{{inject, 0}, {solve, 1}, {correct, 0}}));
  EXPECT_EQ(plan_cycle(3, {.relaxations = {0, 2}}, false),
            (std::vector<Phase>{{restrict, 0}, {relax, 1}, {relax, 1}, {restrict, 1}, {solve, 2}, {correct, 1}, {fill, 1}, {correct, 0}}));
  EXPECT_EQ(plan_cycle(3, {.relaxations = 0, .skip_downcycle = false, .f_cycle = 1}, true),
            (std::vector<Phase>{{restrict, 0},
                                {restrict, 1},
                                {solve, 2},
                                {correct, 1},  // up to level 1, and once more from there
                                {restrict, 1},
                                {solve, 2},
                                {correct, 1},
                                {fill, 1},
                                {correct, 0}}));
  EXPECT_EQ(plan_cycle(1, {}, false), (std::vector<Phase>{{solve, 0}}));
}

}  // namespace level_plan_test
}  // namespace tw::layer_parallel
