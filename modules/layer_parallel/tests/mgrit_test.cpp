// SPDX-License-Identifier: Apache-2.0
// The solver against residual histories of XBraid, which reference/cases.json holds, and against one process.
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/mgrit.hpp>

#include "mpi_test.hpp"

namespace tw::layer_parallel {
namespace {

using testing::world;

nlohmann::json reference_cases() {
  std::ifstream file(TW_REFERENCE "/cases.json");
  return nlohmann::json::parse(file);
}

/// An initial value problem with `steps` steps to `final_time`.
struct Problem {
  int64_t steps;
  double final_time;
  at::Tensor origin;
  std::function<at::Tensor(const at::Tensor& u, double a, double b)> step;

  double time(int64_t point) const { return static_cast<double>(point) * final_time / static_cast<double>(steps); }

  StepwisePropagator propagator() const {
    return StepwisePropagator([this](const March& march, int64_t k, const State& from) -> State {
      const int64_t stride = march.plan.level(march.level).stride;
      return {step(from[0], time(k * stride), time((k + 1) * stride))};
    });
  }

  std::vector<at::Tensor> serial() const {
    std::vector<at::Tensor> values{origin};
    for (int64_t k = 0; k < steps; ++k) values.push_back(step(values.back(), time(k), time(k + 1)));
    return values;
  }
};

Problem decay(int64_t steps) {
  return {steps, static_cast<double>(steps) / 2, at::full({1}, 1.0, at::kDouble),
          [](const at::Tensor& u, double a, double b) { return u / (1 + (b - a)); }};
}

/// u_t = u_xx + F on [0, pi], whose solution is sin x cos t.
Problem heat(int64_t steps, int64_t m) {
  const double dx = std::numbers::pi / static_cast<double>(m - 1);
  std::vector<double> x(static_cast<size_t>(m), 0);
  for (size_t j = 1; j < x.size(); ++j) x[j] = x[j - 1] + dx;
  at::Tensor origin = at::zeros({m}, at::kDouble);
  for (size_t j = 0; j < x.size(); ++j) origin.data_ptr<double>()[j] = std::sin(x[j]);
  const auto step = [x, dx](const at::Tensor& from, double a, double b) {
    at::Tensor to = from.clone();
    double* u = to.data_ptr<double>();
    const size_t n = x.size();
    const double dt = b - a;
    u[0] = std::sin(0.0) * std::cos(b);
    u[n - 1] = std::sin(std::numbers::pi) * std::cos(b);
    for (size_t j = 0; j < n; ++j) u[j] += dt * std::sin(x[j]) * (std::cos(b) - std::sin(b));
    // Thomas' algorithm for (1 + 2k) w_j - k w_{j-1} - k w_{j+1} = u_j inside, w = u at the ends
    const double k = dt / (dx * dx);
    std::vector<double> upper(n, 0);
    for (size_t j = 1; j + 1 < n; ++j) {
      const double pivot = 1 + 2 * k + k * upper[j - 1];
      upper[j] = -k / pivot;
      u[j] = (u[j] + k * u[j - 1]) / pivot;
    }
    for (size_t j = n - 1; j-- > 1;) u[j] -= upper[j] * u[j + 1];
    return to;
  };
  return {steps, 2 * std::numbers::pi, origin, step};
}

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
  std::map<int64_t, at::Tensor> random;
  if (kind == "lcg") {
    uint64_t s = 1;
    for (int64_t point = 0; point <= plan.level(0).steps; point += plan.level(0).coarsening) {
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

void expect_histories_agree(const std::vector<std::optional<double>>& ours, const nlohmann::json& reference, const std::string& name) {
  ASSERT_EQ(ours.size(), reference.size()) << name;
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].has_value(), !reference[i].is_null()) << name << ", iteration " << i;
    if (!ours[i]) continue;
    // Rounding decides below 1e-12; the digits of heat's are fewer by what its matrix is worth: see definitions of the reference.
    const double expected = reference[i].get<double>();
    EXPECT_NEAR(*ours[i], expected, 1e-10 * expected + 1e-12) << name << ", iteration " << i;
  }
}

TEST(Mgrit, HasTheResidualsOfTheReference) {
  const nlohmann::json cases = reference_cases();
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
                     .tolerance = options["tol"],
                     .cycle = {.relaxations = PerLevel<int>(options["nrelax"].get<std::vector<int>>()), .skip_downcycle = options["skip"]},
                     .weights = options["weight"].get<double>(),
                     .store_all = true});
        StepwisePropagator propagator = problem.propagator();
        const std::string guess = reference["guess"];
        const Solution solution = mgrit.solve(propagator, {problem.origin}, guess_of(guess, plan, problem));
        expect_histories_agree(solution.report.residuals, reference["residual_history"], reference["name"]);
      }
    }
  }
}

}  // namespace
}  // namespace tw::layer_parallel
