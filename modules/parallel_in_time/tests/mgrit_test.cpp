// SPDX-License-Identifier: Apache-2.0
// The solver against residual histories of XBraid (in reference/cases.json), against one process, and against rounding errors.
#include <ATen/ops/full_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>
#include <map>
#include <tw/comm/collectives.hpp>
#include <tw/parallel_in_time/mgrit.hpp>

#include "mpi_test.hpp"
#include "problems.hpp"
#include "reference_cases.hpp"

namespace tw::layer_parallel {
namespace mgrit_test {

using testing::world;

/// This rank's C-points of level 0.
std::vector<int64_t> my_c_points(const LevelPlan& plan) {
  std::vector<int64_t> mine;
  const auto points = plan.points_of(0, world().rank());
  for (int64_t point = points.begin; point < points.end; ++point) {
    if (plan.level(0).is_c_point(point)) mine.push_back(point);
  }
  return mine;
}

State stacked(const std::vector<at::Tensor>& states) { return states.empty() ? State{} : State{at::stack(states)}; }

State guess_of(const std::string& kind, const LevelPlan& plan, const Problem& problem) {
  std::vector<at::Tensor> states;
  std::map<int64_t, at::Tensor> random{{0, problem.origin}};  // the origin is known, and draws no random number
  if (kind == "lcg") {
    uint64_t s = 1;
    for (int64_t point = plan.level(0).coarsening; point <= plan.level(0).steps; point += plan.level(0).coarsening) {
      at::Tensor state = at::zeros_like(problem.origin);
      for (int64_t j = 0; j < state.numel(); ++j) {
        s = 1103515245 * s + 12345;
        state.data_ptr<double>()[j] = static_cast<double>((s / 65536) % 32768) / 32768;
      }
      random[point] = state;
    }
  }
  const std::vector<at::Tensor> serial = kind == "serial" ? problem.serial() : std::vector<at::Tensor>{};
  for (const int64_t point : my_c_points(plan)) {
    if (kind == "serial") {
      states.push_back(serial[static_cast<size_t>(point)]);
    } else if (kind == "lcg") {
      states.push_back(random[point]);
    } else {
      states.push_back(at::full_like(problem.origin, 0.456));
    }
  }
  return stacked(states);
}

TEST(Mgrit, HasTheResidualsOfTheReference) {
  const nlohmann::json cases = reference_cases();
  ASSERT_EQ(cases["solver"].size(), 8U);
  for (const nlohmann::json& reference : cases["solver"]) {
    const nlohmann::json& options = reference["options"];
    const Problem problem = reference["problem"] == "ode" ? decay(reference["steps"]) : heat(reference["steps"], reference["points_in_space"]);
    const int64_t c = options["cfactor"];
    for (const int64_t unit : {c, int64_t{1}}) {
      for (const StepOwner owner : {StepOwner::left, StepOwner::right}) {
        const LevelPlan plan(plan_levels(problem.steps, {.levels = options["max_levels"], .coarsening = c, .min_coarse = options["min_coarse"]}),
                             partition_steps(problem.steps, world().size(), unit), owner);
        Mgrit mgrit(world(), plan,
                    {.iterations = options["max_iter"],
                     .tolerance = std::max(0.0, options["tol"].get<double>()),  // there, -1 means all iterations
                     .cycle = {.relaxations = PerLevel<int>(options["nrelax"].get<std::vector<int>>()), .skip_downcycle = options["skip"]},
                     .weights = options["weight"].get<double>()},
                    {.store_all = true});
        StepwisePropagator propagator = problem.propagator();
        const std::string guess = reference["guess"];
        const Solution solution = mgrit.solve(propagator, {problem.origin}, guess_of(guess, plan, problem));
        expect_histories_agree(solution.report.residuals, reference["residual_history"], reference["name"]);
      }
    }
  }
}

/// Layers in float32. Once the residual is below rounding, the coarse solution returns the same states to the bit, and the correction is zero. A
/// correction that rounded all states would leave 1 / sqrt(12) epsilon of them, the deviation of a rounding error; a third of that is allowed. Until
/// then, float32 needs at most three iterations more than float64.
TEST(Mgrit, ReachesTheRoundingOfItsStates) {
  constexpr int64_t steps = 64;
  constexpr int64_t c = 4;
  const double rounding = std::numeric_limits<float>::epsilon() / std::sqrt(12) / 3;
  at::manual_seed(1);
  const at::Tensor weights = at::randn({steps, 8, 8}, at::kDouble).mul(0.3);
  const at::Tensor origin = at::randn({4, 8}, at::kDouble).add(3);
  const auto layer = [&](int64_t k, int64_t stride, const at::Tensor& u) {
    return u.add(at::tanh(at::mm(u, weights[k * stride].to(u.scalar_type()))), static_cast<double>(stride) / 16);
  };
  double square = 0;
  at::Tensor serial = origin;
  for (int64_t k = 0; k < steps; ++k) {
    if (k % c == 0) square += serial.square().sum().item<double>();
    serial = layer(k, 1, serial);
  }
  StepwisePropagator layers(
      [&](const March& march, int64_t k, const State& u) -> State { return {layer(k, march.plan.level(march.level).stride, u[0])}; });
  for (const int nu : {0, 1}) {
    const LevelPlan plan(plan_levels(steps, {.coarsening = c}), partition_steps(steps, world().size(), c), StepOwner::right);
    const auto solved = [&](at::ScalarType dtype, double tolerance) {
      return Mgrit(world(), plan, {.iterations = 14, .tolerance = tolerance, .cycle = {.relaxations = nu}}).solve(layers, {origin.to(dtype)}).report;
    };
    const double bound = rounding * std::sqrt(square);
    EXPECT_LE(*solved(at::kFloat, 0).residuals.back(), bound) << nu;
    EXPECT_LE(solved(at::kFloat, bound).iterations, solved(at::kDouble, bound).iterations + 3) << nu;
  }
}

}  // namespace mgrit_test
}  // namespace tw::layer_parallel
