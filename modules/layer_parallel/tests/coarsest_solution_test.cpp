// SPDX-License-Identifier: Apache-2.0
// The coarsest level solved on every rank, against the relay.
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>

#include <tw/base/contract.hpp>
#include <tw/layer_parallel/ode.hpp>

#include "mpi_test.hpp"

namespace tw::layer_parallel {
namespace coarsest_solution_test {

using testing::world;

mgrit::Result<State> solved(bool everywhere, int64_t steps, int levels, const MgritOptions& options = {}) {
  const State u0{at::full({2, 3}, 0.5, at::kDouble), at::full({4}, 0.25, at::kFloat)};
  const auto step = [](double t, double dt, const State& u) -> State { return {u[0] + dt * at::sin(u[0] + t), u[1] * (1 - dt * t)}; };
  MgritOptions solver = options;
  solver.coarsest_everywhere = everywhere;
  return mgrit::solve(world(), u0, steps, step,
                      {.levels = levels, .coarsening = 3, .min_coarse = 1, .solver = solver, .finish = {.store_all = true}});
}

// Every step has the same arguments, so that values are equal to the bit; residuals are, where their sum has one order.
TEST(CoarsestSolution, IsTheSameEverywhere) {
  for (const int64_t steps : {1, 3, 10, 27, 40}) {
    for (const int levels : {2, 3}) {
      for (const bool skip : {false, true}) {
        const MgritOptions options{.iterations = 6, .tolerance = 1e-14, .cycle = {.relaxations = 0, .skip_downcycle = skip}};
        const auto relay = solved(false, steps, levels, options);
        const auto [u, report] = solved(true, steps, levels, options);
        ASSERT_EQ(u.values.size(), relay.u.values.size());
        for (size_t i = 0; i < u.values.size(); ++i) {
          for (size_t j = 0; j < 2; ++j) EXPECT_TRUE(u.values[i][j].equal(relay.u.values[i][j])) << steps << ' ' << levels << ' ' << i;
        }
        EXPECT_EQ(report.residuals, relay.report.residuals);
      }
    }
  }
}

TEST(CoarsestSolution, MakesTheStepsUpToTheRanksOwnPoints) {
  constexpr int64_t steps = 36;
  const auto report = solved(true, steps, 2, {.iterations = 1}).report;
  const LevelPlan plan = level_plan(steps, world().size(), {.coarsening = 3, .min_coarse = 1}, StepOwner::right);
  EXPECT_EQ(report.steps[1], plan.points_of(1, world().rank()).end - 1);
  EXPECT_EQ(report.messages[1], 0) << "a prediction has no right-hand sides";
}

TEST(CoarsestSolution, IsNotEverywhereWhereARankLacksSteps) {
  const LevelPlan plan = level_plan(12, world().size(), {.coarsening = 3}, StepOwner::right);
  StepwisePropagator propagator([](const March&, int64_t, const State& u) { return u; });
  EXPECT_THROW(Mgrit(world(), plan, {.coarsest_everywhere = true}).solve(propagator, {at::full({1}, 1.0)}), ContractError);
}

// An error in a step that one rank makes alone.
TEST(CoarsestSolution, PassesErrorsOn) {
  const auto step = [](double t, double dt, double u) {
    if (dt > 0.2 && world().rank() == world().size() - 1 && t > 0.7) throw std::runtime_error("no more");
    return u;
  };
  mgrit::Options<double> options{.coarsening = 3};
  options.solver.coarsest_everywhere = true;
  if (world().rank() == world().size() - 1) {
    EXPECT_THROW(mgrit::solve(world(), 1.0, 12, step, options), std::runtime_error);
  } else {
    EXPECT_THROW(mgrit::solve(world(), 1.0, 12, step, options), RevokedError);
  }
}

}  // namespace coarsest_solution_test
}  // namespace tw::layer_parallel
