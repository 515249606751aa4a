// SPDX-License-Identifier: Apache-2.0
// Newton's method over all steps together, compared with its serial form and with sequential steps.
#include <tw/parallel_in_time/newton.hpp>

#include "mpi_test.hpp"

#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <string>
#include <tw/base/contract.hpp>

namespace tw::layer_parallel {
namespace newton_test {

using testing::world;
using torch::Tensor;

/// u' = f(M u + x_k), with an elementwise f.
struct Steps : LinearisingPropagator {
  Tensor matrix;  // [width, width]
  Tensor inputs;  // inputs of all steps [steps, batch, width]
  std::function<Tensor(const Tensor&)> f = [](const Tensor& z) { return z; };
  std::function<Tensor(const Tensor&)> derivative = [](const Tensor& z) { return torch::ones_like(z); };

  int64_t size() const { return inputs.size(0); }
  Tensor origin() const { return torch::linspace(0.3, 0.7, inputs[0].numel(), torch::kDouble).view_as(inputs[0]); }
  Tensor argument(const Runs& runs, const Tensor& from, int64_t j) const {
    std::vector<Tensor> x;
    for (int64_t run = 0; run < runs.count; ++run) x.push_back(inputs[runs.begin(run) + j]);
    return (from.unsqueeze(-2) * matrix).sum(-1) + torch::stack(x);  // the same bits for any number of stacked rows
  }

  State march(const March& march, const State& from, const Between& between) override {
    State states = from;
    for (int64_t j = 0; j < march.runs.length; ++j) {
      states = {f(argument(march.runs, states[0], j))};
      if (between && j + 1 < march.runs.length) states = between(j, states);
    }
    return states;
  }

  Linearisation linearise(const March& march, const State& from, JacobianKind kind) override {
    const Tensor z = argument(march.runs, from[0], 0);
    const Tensor all = derivative(z).unsqueeze(-1) * matrix;
    return {{f(z)}, kind == JacobianKind::full ? all : all.diagonal(0, -2, -1).unsqueeze(-2).unsqueeze(-2)};
  }

  /// States at all points.
  Tensor serial() const {
    std::vector<Tensor> states{origin()};
    for (int64_t k = 0; k < size(); ++k) states.push_back(f(argument({k, 1, 1, 1}, states.back().unsqueeze(0), 0))[0]);
    return torch::stack(states);
  }
};

Steps linear(int64_t steps, int64_t width) {
  torch::manual_seed(11);
  Steps of;
  of.matrix = torch::randn({width, width}, torch::kDouble) / std::sqrt(static_cast<double>(width));
  of.inputs = torch::randn({steps, 2, width}, torch::kDouble);
  return of;
}

/// As in a plain recurrent network, with weights `gain` times those at which signals neither grow nor vanish.
Steps network(int64_t steps, int64_t width, double gain) {
  Steps of = linear(steps, width);
  of.matrix = of.matrix * gain;
  of.f = [](const Tensor& z) { return z.tanh(); };
  of.derivative = [](const Tensor& z) { return 1 - z.tanh().square(); };
  return of;
}

/// The logistic map, u' = r u (1 - u), as r/4 - r (u - 1/2)^2: chaotic, and outside [0, 1] it diverges to minus infinity.
Steps logistic(int64_t steps, double r = 3.9) {
  Steps of;
  of.matrix = torch::ones({1, 1}, torch::kDouble);
  of.inputs = torch::full({steps, 2, 1}, -0.5, torch::kDouble);
  of.f = [r](const Tensor& z) { return r / 4 - r * (z * z); };
  of.derivative = [r](const Tensor& z) { return -2 * r * z; };
  return of;
}

struct Found {
  Tensor points;  // points of this rank
  Tensor error;   // error at each point against the serial solution, the largest over components
  int64_t first = 0;
  Report report;
};

LevelPlan plan_of(int64_t steps) { return level_plan(steps, world().size(), {.levels = 1}, StepOwner::right); }

Found solve(Steps& steps, const NewtonOptions& options, const State& guess = {}) {
  Newton newton(world(), plan_of(steps.size()), options);
  const Solution solution = newton.solve(steps, {steps.origin()}, guess);
  const auto mine = newton.plan().points_of(0, world().rank());
  const Tensor expected = steps.serial();
  EXPECT_EQ(solution.first, mine.begin);
  EXPECT_EQ(solution.points[0].size(0), mine.size());
  const bool has_end = newton.plan().home(0, steps.size()) == world().rank();
  EXPECT_EQ(solution.end.empty(), !has_end);
  if (has_end) {
    EXPECT_TRUE(solution.end[0].allclose(solution.points[0][-1], 0, 0, true));
  }
  const Tensor points = solution.points[0];
  return {points, (points - expected.narrow(0, mine.begin, mine.size())).abs().amax({1, 2}), mine.begin, solution.report};
}

double largest(const Found& found) { return found.error.numel() == 0 ? 0 : found.error.max().item<double>(); }

// 1e-13: hundreds of rounding errors of numbers of size 1.
TEST(Newton, IsExactAfterOneIterationOfLinearSteps) {
  for (const int64_t n : {1, 2, 3, 7, 64, 150}) {
    for (const int64_t width : {1, 4}) {
      Steps steps = linear(n, width);
      const Found found = solve(steps, {.iterations = 1});
      EXPECT_LT(largest(found), 1e-13) << n << ' ' << width;
      const Found again = solve(steps, {.iterations = 2});
      EXPECT_LT(*again.report.residuals[1], 1e-12) << n << ' ' << width;
      EXPECT_GT(*again.report.residuals[0], 0.1);

      steps.matrix = steps.matrix.diagonal().diag();
      EXPECT_LT(largest(solve(steps, {.iterations = 1, .jacobian = JacobianKind::diagonal})), 1e-13) << n << ' ' << width;
    }
  }
}

/// The 2-norm of the residual in each iteration, for a scalar state with the steps of `of`: Newton's method on f(u_{k-1}) - u_k = 0, by forward
/// substitution.
std::vector<double> residuals_of(const std::function<double(double, int64_t)>& f, const std::function<double(double, int64_t)>& derivative,
                                 double origin, int64_t steps, int iterations) {
  std::vector<double> u(static_cast<size_t>(steps + 1), 0);
  u[0] = origin;
  std::vector<double> norms;
  for (int i = 0; i < iterations; ++i) {
    double square = 0;
    double change = 0;  // change of u_{k-1}
    std::vector<double> next = u;
    for (size_t k = 1; k < u.size(); ++k) {
      const auto step = static_cast<int64_t>(k) - 1;
      const double residual = f(u[k - 1], step) - u[k];
      square += residual * residual;
      change = derivative(u[k - 1], step) * change + residual;
      next[k] += change;
    }
    u = next;
    norms.push_back(std::sqrt(square));
  }
  return norms;
}

TEST(Newton, ConvergesAsItsSerialFormDoes) {
  constexpr int64_t n = 50;
  Steps steps = network(n, 1, 1);
  steps.matrix.fill_(0.8);
  steps.inputs = steps.inputs.narrow(1, 0, 1);
  const auto x = [&](double u, int64_t k) { return 0.8 * u + steps.inputs[k].item<double>(); };
  const std::vector<double> expected =
      residuals_of([&](double u, int64_t k) { return std::tanh(x(u, k)); },
                   [&](double u, int64_t k) { return 0.8 * (1 - std::pow(std::tanh(x(u, k)), 2)); }, steps.origin().item<double>(), n, 7);
  for (const bool decides : {false, true}) {
    const Found found = solve(steps, {.iterations = 7, .on_divergence = decides ? OnDivergence::serial : OnDivergence::report});
    ASSERT_EQ(found.report.residuals.size(), decides ? found.report.residuals.size() : 7U);
    for (size_t i = 0; i < found.report.residuals.size(); ++i) {
      EXPECT_NEAR(*found.report.residuals[i], expected[i], 1e-9 * expected[i] + 1e-13) << i;  // 1e-13: rounding errors of 50 steps
    }
  }
  // Each residual is the square of the previous one, up to a factor; another method would only divide it.
  for (size_t i = 1; i + 1 < expected.size() && expected[i + 1] > 1e-13; ++i) EXPECT_LT(expected[i + 1], 2 * expected[i] * expected[i]) << i;
  EXPECT_LT(expected[6], 1e-13);
}

// For chaotic steps, and for states that overflow in between.
TEST(Newton, MakesOneMoreStateExactInEachIteration) {
  constexpr int64_t n = 23;
  for (Steps steps : {logistic(n), network(n, 3, 6)}) {
    for (const JacobianKind kind : {JacobianKind::full, JacobianKind::diagonal}) {
      for (const int iterations : {1, 2, 5, 11, 22}) {
        const Found found = solve(steps, {.iterations = iterations, .jacobian = kind});
        for (int64_t row = 0; row < found.error.size(0); ++row) {
          if (found.first + row > iterations + 1) break;
          EXPECT_EQ(found.error[row].item<double>(), 0) << "point " << found.first + row << " after " << iterations;
        }
      }
    }
  }
}

TEST(Newton, FindsTheSolutionFromIt) {
  Steps steps = network(37, 3, 1.5);
  Newton newton(world(), plan_of(37), {.iterations = 3});
  const auto mine = newton.plan().points_of(0, world().rank());
  const Found found = solve(steps, {.iterations = 3}, {steps.serial().narrow(0, mine.begin, mine.size())});
  for (const auto& residual : found.report.residuals) EXPECT_EQ(*residual, 0);
  EXPECT_EQ(largest(found), 0);
}

TEST(Newton, StopsBelowTheTolerance) {
  Steps steps = network(60, 3, 0.9);
  const Found found = solve(steps, {.iterations = 40, .tolerance = 1e-3});
  EXPECT_TRUE(found.report.converged);
  EXPECT_FALSE(found.report.diverged);
  EXPECT_LT(found.report.iterations, 12);
  EXPECT_EQ(found.report.residuals.size(), static_cast<size_t>(found.report.iterations));
  EXPECT_LT(*found.report.residuals.back(), 1e-3);
  EXPECT_GE(*found.report.residuals[found.report.residuals.size() - 2], 1e-3);
  EXPECT_LT(largest(found), 1e-5);  // the iteration that noticed it has also squared it
  const Found all = solve(steps, {.iterations = found.report.iterations + 3});
  EXPECT_EQ(all.report.iterations, found.report.iterations + 3);
  EXPECT_FALSE(all.report.converged);  // no tolerance was given
}

TEST(Newton, SaysWhatItCost) {
  constexpr int64_t n = 40;
  Steps steps = network(n, 3, 0.9);
  const Found found = solve(steps, {.iterations = 4, .residuals = false});
  const LevelPlan plan = plan_of(n);
  const int rank = world().rank();
  EXPECT_EQ(found.report.steps[0], 5 * plan.steps_of(0, rank).size());
  const int64_t borders = rank + 1 < world().size() ? 1 : 0;
  EXPECT_EQ(found.report.messages[0], 5 * borders);
  EXPECT_EQ(found.report.bytes, 5 * borders * 2 * 3 * 8);
  EXPECT_EQ(found.report.residuals, std::vector<std::optional<double>>(4));
}

// The first linearisation of a chaotic network is far off.
TEST(Newton, SaysThatItDivergedOrGoesOnSerially) {
  Steps steps = network(80, 3, 8);
  const Found reported = solve(steps, {.iterations = 2});
  EXPECT_TRUE(reported.report.diverged);
  EXPECT_FALSE(reported.report.converged);
  const Found serial = solve(steps, {.iterations = 2, .on_divergence = OnDivergence::serial});
  EXPECT_TRUE(serial.report.diverged && serial.report.serial && serial.report.converged);
  EXPECT_EQ(largest(serial), 0);
  const Found more = solve(steps, {.iterations = 2, .on_divergence = OnDivergence::more_iterations});
  EXPECT_EQ(more.report.iterations, 4);

  Steps overflowing = logistic(60, 8);  // the steps themselves overflow too
  ASSERT_FALSE(overflowing.serial().isfinite().all().item<bool>());
  EXPECT_TRUE(solve(overflowing, {.iterations = 2}).report.diverged);
  const Found stopped = solve(overflowing, {.iterations = 70, .tolerance = 1e-6});
  EXPECT_TRUE(stopped.report.diverged);
  EXPECT_LT(stopped.report.iterations, 70);
  const Found neither = solve(overflowing, {.iterations = 2, .on_divergence = OnDivergence::serial});
  EXPECT_TRUE(neither.report.serial && !neither.report.converged);
}

TEST(Newton, IsSerialWithoutIterations) {
  Steps steps = network(40, 3, 6);
  const Found at_once = solve(steps, {.iterations = 0});
  EXPECT_EQ(largest(at_once), 0);
  EXPECT_TRUE(at_once.report.converged);

  Newton newton(world(), plan_of(40), {.iterations = 3});
  newton.set_iterations(0);
  EXPECT_EQ(newton.solve(steps, {steps.origin()}).report.iterations, 0);
  newton.set_iterations(5);
  EXPECT_EQ(newton.solve(steps, {steps.origin()}).report.iterations, 5);
}

TEST(Newton, RefusesWhatItCannotDo) {
  const auto refusal = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const ContractError& error) {
      return std::string(error.what());
    } catch (const std::exception&) {
    }
    return std::string();
  };
  StepwisePropagator stepwise([](const March&, int64_t, const State& u) { return u; });
  const Communicator comm = world().dup();
  Newton newton(comm, plan_of(8), {});
  world().barrier();  // otherwise the refusal on one rank could release another from there
  const std::string said = refusal([&] { newton.solve(stepwise, {torch::zeros({1}, torch::kDouble)}); });
  EXPECT_NE(said.find("LinearisingPropagator"), std::string::npos) << said;
  EXPECT_NE(refusal([] { NewtonOptions{.iterations = -1}.validate(); }).find("iterations"), std::string::npos);
  EXPECT_NE(refusal([] { NewtonOptions{.tolerance = 1, .residuals = false}.validate(); }).find("tolerance"), std::string::npos);
}

}  // namespace newton_test
}  // namespace tw::layer_parallel
