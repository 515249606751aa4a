// SPDX-License-Identifier: Apache-2.0
// Predicted speed-ups, compared with closed formulas, published tables of the model, and cases calculated by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <tw/base/error.hpp>
#include <tw/planning/level_recommendation.hpp>

namespace tw::layer_parallel {
namespace level_prediction_test {

LevelPlan make_plan(int64_t steps, int ranks, int64_t c, int levels = 2) {
  return {plan_levels(steps, {.levels = levels, .coarsening = c}), partition_steps(steps, ranks, levels == 1 ? 1 : c), StepOwner::left};
}

PassOptions pass(int iterations, PerLevel<int> relaxations = 0) {
  return {.cycle = {.relaxations = std::move(relaxations)}, .iterations = iterations};
}

/// Speed-up if all ranks synchronise after every sweep.
double speed_up_in_step(const LevelPlan& plan, const PassOptions& forward, const PassOptions& backward) {
  const auto serial = static_cast<double>(3 * plan.level(0).steps);
  return serial / static_cast<double>(serial_step_bound(plan, forward) + 2 * serial_step_bound(plan, backward));
}

/// With F-relaxation and skip, two levels. Forward, two iterations: N/c to solve, N/P to relax, N/c to solve, N/P for the last relaxation, plus N/(c
/// P) for the coarse right-hand side, which the formula ignores. Backward, one iteration: N/c and N/P, at twice the cost.
TEST(Prediction, InStepIsTheClosedFormula) {
  for (const int ranks : {1, 2, 4, 8, 16}) {
    for (const int64_t c : {2, 4, 8, 16}) {
      const int64_t n = 512;
      const LevelPlan plan = make_plan(n, ranks, c);
      const double p = ranks;
      const auto d = static_cast<double>(c);
      EXPECT_NEAR(speed_up_in_step(plan, pass(2), pass(1)), 3 / (4 / p + 4 / d + 1 / (d * p)), 1e-12) << ranks << " ranks, c = " << c;
      EXPECT_NEAR(speed_up_in_step(plan, pass(1), pass(1)), 1 / (1 / p + 1 / d), 1e-12) << ranks << " ranks, c = " << c;
    }
  }
}

/// The table includes the coarse right-hand side too.
TEST(Prediction, InStepIsTheTableOf64LayersOnTwoRanks) {
  const std::vector<std::vector<double>> table{{4, 0.96, 1.33}, {8, 1.17, 1.60}, {16, 1.32, 1.78}, {32, 1.40, 1.88}};
  for (const auto& row : table) {
    const LevelPlan plan = make_plan(64, 2, static_cast<int64_t>(row[0]));
    EXPECT_NEAR(speed_up_in_step(plan, pass(2), pass(1)), row[1], 0.0051) << "c = " << row[0];
    EXPECT_NEAR(speed_up_in_step(plan, pass(1), pass(1)), row[2], 0.0051) << "c = " << row[0];
  }
}

/// Relaxations are F on the finest level and FCF below. Of 32 ranks, 16 have a step of the coarsest level; the table counts half of it, 12.77.
TEST(Prediction, InStepIsTheTableOf1024LayersOnThreeLevels) {
  const std::vector<double> table{1.21, 2.36, 4.50, 8.24, 12.8, 17.6};
  for (size_t i = 0; i < table.size(); ++i) {
    const int ranks = 2 << i;
    const PerLevel<int> f_then_fcf{0, 1};
    const double speed_up = speed_up_in_step(make_plan(1024, ranks, 8, 3), pass(2, f_then_fcf), pass(1, f_then_fcf));
    EXPECT_NEAR(speed_up, table[i], table[i] < 10 ? 0.0051 : 0.054) << ranks << " ranks";
  }
}

/// Rank 0 begins to relax while rank 1 still solves, and rank 1 stays 8 steps later from then on. Clocks of both ranks by hand: first solution 8, 16;
/// relaxation 40, 48; right-hand side 48, 56; solution 56, 64; last relaxation 88, 96. Backward 2 (16 + 32).
TEST(Prediction, RanksDoNotWaitForThoseBehindThem) {
  const Prediction prediction = predict(make_plan(64, 2, 4), pass(2), pass(1));
  EXPECT_DOUBLE_EQ(prediction.serial, 192);
  EXPECT_DOUBLE_EQ(prediction.parallel, 96 + 96);
  EXPECT_DOUBLE_EQ(prediction.speed_up, 1);
}

/// Three iterations: the third waits for the residual of the second, at 64. Rank 0 then solves at 112 and rank 1 at 120, instead of 104 and 112.
TEST(Prediction, ResidualsMakeRanksMeet) {
  PassOptions forward = pass(3);
  EXPECT_DOUBLE_EQ(predict(make_plan(64, 2, 4), forward, pass(1)).parallel, 152 + 96);
  forward.residuals = false;
  EXPECT_DOUBLE_EQ(predict(make_plan(64, 2, 4), forward, pass(1)).parallel, 144 + 96);
}

/// Blocks of 8 and 4 layers. Forward: the coarse solution reaches rank 0 after 2, and its last relaxation ends at 10; rank 1 ends at 3 + 4. Backward,
/// the small block comes first: 1 + 4, and then 3 + 8.
TEST(Prediction, TheAdjointGoesTheOtherWay) { EXPECT_DOUBLE_EQ(predict(make_plan(12, 2, 4), pass(1), pass(1)).parallel, 10 + 2 * 11); }

TEST(Prediction, CountsMessagesOnTheWay) {
  // One level: 12 steps and 3 messages in each direction, and the broadcast of the output in two rounds.
  const Prediction serial = predict(make_plan(12, 4, 4, 1), pass(1), pass(1), {.step = 5, .message = 0.25});
  EXPECT_DOUBLE_EQ(serial.serial, 3 * 12 * 5);
  EXPECT_DOUBLE_EQ(serial.parallel, (60 + 3 * 0.25) + 2 * 0.25 + (120 + 3 * 0.25));
  // 16 layers on 2 ranks, c = 4: 4 steps to solve, with a message in the middle. The last relaxation of rank 1 needs the C-point of rank 0, which
  // arrives long before. Backward the same, with a broadcast of one round in between.
  const Prediction parallel = predict(make_plan(16, 2, 4), pass(1), pass(1), {.step = 1, .message = 0.25});
  EXPECT_DOUBLE_EQ(parallel.parallel, (4 + 0.25 + 8) + 0.25 + (8 + 0.25 + 16));
}

TEST(Prediction, CountsLayersBesideTheGrid) {
  const Prediction without = predict(make_plan(64, 2, 8), pass(2), pass(1));
  const Prediction with = predict(make_plan(64, 2, 8), pass(2), pass(1), {.serial_layers = 10});
  EXPECT_DOUBLE_EQ(with.parallel, without.parallel + 30);
  EXPECT_DOUBLE_EQ(with.serial, without.serial + 30);
}

/// No rank is faster than its own steps, and no plan is slower than synchronised ranks.
TEST(Prediction, LiesBetweenTheBusiestRankAndAllInStep) {
  for (int64_t n = 4; n <= 300; n += n < 30 ? 1 : 17) {
    for (const int64_t c : {2, 3, 4, 8, 16}) {
      for (const int ranks : {1, 2, 3, 7, 16, 64}) {
        if (n / c * c < ranks) continue;
        for (const int levels : {1, 2, 3}) {
          const LevelPlan plan = make_plan(n / c * c, ranks, c, levels);
          const PassOptions forward = pass(2, 1);
          int64_t busiest = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            int64_t steps = plan.steps_of(0, rank).size();
            for (int i = 0; plan.levels() > 1 && i < forward.iterations; ++i) {
              for (const Phase& phase : plan_cycle(plan.levels(), forward.cycle, i == 0)) {
                for (const auto& [level, kind] : sweeps_of(phase)) steps += cost_of(plan_sweep(plan, level, kind, rank)).steps;
              }
            }
            busiest = std::max(busiest, steps);
          }
          // Only the forward pass: the adjoint's steps cost almost nothing here.
          const double time = predict(plan, forward, pass(1), {.backward = 1e-9}).parallel;
          EXPECT_GE(time, static_cast<double>(busiest) - 1e-3) << n << " steps, c = " << c << ", " << ranks << " ranks, " << levels << " levels";
          EXPECT_LE(time, static_cast<double>(serial_step_bound(plan, forward)) + 1e-3)
              << n << " steps, c = " << c << ", " << ranks << " ranks, " << levels << " levels";
        }
      }
    }
  }
}

TEST(Prediction, RefusesCostsThatAreNone) {
  EXPECT_THROW(predict(make_plan(8, 2, 2), pass(1), pass(1), {.step = 0}), ContractError);
  EXPECT_THROW(predict(make_plan(8, 2, 2), pass(1), pass(1), {.message = -1}), ContractError);
}

TEST(Recommendation, IsNearlyTheFastestAndConvergesBest) {
  for (const int64_t layers : {16, 64, 100, 256, 1024}) {
    for (const int ranks : {2, 3, 8, 16}) {
      const std::vector<LevelChoice> all = level_choices(layers, ranks);
      const LevelChoice best = recommend(layers, ranks);
      EXPECT_GE(best.prediction.speed_up, 0.95 * all.front().prediction.speed_up) << layers << " layers, " << ranks << " ranks";
      for (const LevelChoice& other : all) {
        EXPECT_LE(other.prediction.speed_up, all.front().prediction.speed_up);
        if (other.is_serial() || other.prediction.speed_up < 0.95 * all.front().prediction.speed_up) continue;
        EXPECT_LE(best.coarsening.at(0), other.coarsening.at(0)) << layers << " layers, " << ranks << " ranks";
      }
    }
  }
}

TEST(Recommendation, IsSerialWhereNothingIsFaster) {
  EXPECT_TRUE(recommend(64, 1).is_serial());
  EXPECT_TRUE(recommend(4, 2).is_serial());
  EXPECT_FALSE(recommend(64, 4).is_serial());
  EXPECT_TRUE(recommend(64, 4, {.costs = {.step = 1, .message = 100}}).is_serial()) << "messages that take long";
}

TEST(Recommendation, TriesWhatItIsTold) {
  for (const LevelChoice& choice : level_choices(256, 4, {.coarsenings = {PerLevel<int64_t>{8, 4}}})) {
    EXPECT_LE(choice.plan.levels(), 5);
    if (choice.is_serial()) continue;
    EXPECT_EQ(choice.plan.level(0).coarsening, 8);
    EXPECT_EQ(choice.plan.level(1).coarsening, choice.plan.levels() >= 3 ? 4 : 0);
  }
  // 67 layers: 64 on the grid, 3 after it.
  const std::vector<LevelChoice> uneven = level_choices(67, 2, {.coarsenings = {8}, .relaxations = {0}});
  const auto two_levels = std::find_if(uneven.begin(), uneven.end(), [](const LevelChoice& choice) { return choice.plan.levels() == 2; });
  ASSERT_NE(two_levels, uneven.end());
  EXPECT_DOUBLE_EQ(two_levels->prediction.parallel, predict(make_plan(64, 2, 8), pass(2), pass(1), {.serial_layers = 3}).parallel);
  EXPECT_DOUBLE_EQ(two_levels->prediction.serial, 3 * 67);
}

TEST(Recommendation, RefusesWhatCannotBe) {
  EXPECT_THROW(recommend(1, 1), ContractError);
  EXPECT_THROW(recommend(8, 0), ContractError);
  EXPECT_THROW(recommend(8, 9), ContractError);
  EXPECT_THROW(recommend(8, 2, {.coarsenings = {1}}), ContractError);
  EXPECT_THROW(recommend(8, 2, {.forward_iterations = 0}), ContractError);
}

}  // namespace level_prediction_test
}  // namespace tw::layer_parallel
