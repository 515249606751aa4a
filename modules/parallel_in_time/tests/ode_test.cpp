// SPDX-License-Identifier: Apache-2.0
// Solving ODEs in parallel: kinds of states, numbers of steps that do not divide evenly, and mistakes.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <complex>
#include <tw/comm/collectives.hpp>
#include <tw/parallel_in_time/ode.hpp>

#include "mpi_test.hpp"

namespace tw::layer_parallel {
namespace ode_test {

struct Particle {
  double x;
  double v;
};

}  // namespace ode_test

template <>
struct mgrit::StateTraits<ode_test::Particle> {
  static State tensors(const ode_test::Particle& p) { return {tensor_of(std::array{p.x, p.v})}; }
  static ode_test::Particle value(const State& tensors) {
    const auto numbers = numbers_of(tensors.front());
    return {numbers[0], numbers[1]};
  }
};

namespace ode_test {

using mgrit::OdeStep;
using testing::world;

constexpr auto decay = [](double, double dt, double u) { return u / (1 + dt); };

static_assert(OdeStep<decltype(decay), double>);
static_assert(!OdeStep<decltype([](double, double) { return 1.0; }), double>, "a step is a function of t, dt and u");
static_assert(!OdeStep<decltype([](double, double, double u) { return u; }), int>, "an int is no state");
static_assert(!OdeStep<decltype([](double, double, const State&) { return 1.0; }), State>, "a step leads to a state");

template <class T, class Step>
std::vector<T> in_series(const T& u0, int64_t steps, double final_time, const Step& step) {
  const double dt = final_time / static_cast<double>(steps);
  std::vector<T> values{u0};
  for (int64_t k = 0; k < steps; ++k) values.push_back(step(static_cast<double>(k) * dt, dt, values.back()));
  return values;
}

/// Checks that `mgrit::solve` equals sequential steps at each of this rank's points and at the end. @param apart the distance of two states.
template <class T, class Step, class Apart>
void expect_equals_serial(const T& u0, const Step& step, const Apart& apart, double tolerance = 1e-13) {
  constexpr int64_t steps = 27;
  const std::vector<T> serial = in_series(u0, steps, 2, step);
  const auto [u, report] =
      mgrit::solve(world(), u0, steps, step, {.final_time = 2, .levels = 3, .coarsening = 3, .final_relaxation = {.store_all = true}});
  EXPECT_LE(apart(u.end, serial.back()), tolerance);
  EXPECT_EQ(u.spacing, 1);
  for (size_t i = 0; i < u.values.size(); ++i) EXPECT_LE(apart(u.values[i], serial[static_cast<size_t>(u.first) + i]), tolerance) << i;
  int64_t points = static_cast<int64_t>(u.values.size());
  const at::Tensor all = at::tensor(points);
  allreduce(world(), all, ReduceOp::sum);
  EXPECT_EQ(all.item<int64_t>(), steps + 1) << "every point is on one rank";
}

TEST(Ode, TakesStatesOfManyKinds) {
  const auto of_tensors = [](const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); };
  expect_equals_serial(1.0, decay, [](double a, double b) { return std::abs(a - b); });
  expect_equals_serial(
      at::full({2, 3}, 0.5, at::kDouble), [](double t, double dt, const at::Tensor& u) { return u + dt * at::sin(u + t); }, of_tensors);
  expect_equals_serial(
      at::full({2}, 0.5, at::kFloat), [](double t, double dt, const at::Tensor& u) { return u + dt * at::sin(u + t); }, of_tensors, 1e-6);
  expect_equals_serial(
      at::full({}, c10::complex<double>(1, 0), at::kComplexDouble),
      [](double, double dt, const at::Tensor& u) { return u / at::full({}, c10::complex<double>(1, dt), at::kComplexDouble); }, of_tensors);
  expect_equals_serial(
      State{at::full({2}, 1.0, at::kDouble), at::full({3, 1}, 0.5, at::kFloat), at::zeros({0}, at::kDouble)},
      [](double, double dt, const State& u) -> State { return {u[0] - dt * u[0] * u[1].sum(), u[1] / (1 + dt), u[2]}; },
      [&](const State& a, const State& b) { return std::max(of_tensors(a[0], b[0]), of_tensors(a[1], b[1])); }, 1e-6);
  const auto spring = [](double, double dt, const auto& u) {
    auto next = u;
    next[1] = (u[1] - dt * u[0]) / (1 + dt * dt);
    next[0] = u[0] + dt * next[1];
    return next;
  };
  const auto of_numbers = [](const auto& a, const auto& b) { return std::max(std::abs(a[0] - b[0]), std::abs(a[1] - b[1])); };
  expect_equals_serial(std::vector<double>{1, 0}, spring, of_numbers);
  expect_equals_serial(std::array<double, 2>{1, 0}, spring, of_numbers);
  expect_equals_serial(
      Particle{1, 0},
      [&](double t, double dt, const Particle& p) {
        const auto [x, v] = spring(t, dt, std::array{p.x, p.v});
        return Particle{x, v};
      },
      [](const Particle& a, const Particle& b) { return std::max(std::abs(a.x - b.x), std::abs(a.v - b.v)); });
}

TEST(Ode, TakesAnyNumberOfStepsLevelsAndRanks) {
  for (const int64_t steps : {1, 2, 3, 4, 5, 8, 13, 16, 67}) {
    const double expected = in_series(1.0, steps, 1, decay).back();
    for (const int levels : {1, 2, 4}) {
      for (const int64_t c : {2, 4, 100}) {
        const auto [u, report] =
            mgrit::solve(world(), 1.0, steps, decay, {.levels = levels, .coarsening = c, .min_coarse = 1, .solver = {.iterations = 12}});
        EXPECT_NEAR(u.end, expected, 1e-12) << steps << " steps, " << levels << " levels, c = " << c;
        EXPECT_EQ(report.iterations, levels == 1 || c > steps ? 0 : 12);
      }
    }
  }
}

TEST(Ode, KeepsThePointsThatItIsAskedFor) {
  const std::vector<double> serial = in_series(1.0, 24, 1, decay);
  for (const bool all : {false, true}) {
    const auto [u, report] = mgrit::solve(world(), 1.0, 24, decay, {.final_relaxation = {.store_all = all}});
    EXPECT_EQ(u.spacing, all ? 1 : 4);
    int64_t count = 0;
    for (size_t i = 0; i < u.values.size(); ++i) EXPECT_NEAR(u.values[i], serial[static_cast<size_t>(u.first) + i * (all ? 1 : 4)], 1e-13);
    count = static_cast<int64_t>(u.values.size());
    const at::Tensor sum = at::tensor(count);
    allreduce(world(), sum, ReduceOp::sum);
    EXPECT_EQ(sum.item<int64_t>(), all ? 25 : 7);
  }
}

TEST(Ode, SharesStepsByTheirCost) {
  std::vector<double> costs(32, 1);
  std::fill(costs.begin(), costs.begin() + 8, 9.0);
  const auto [u, report] = mgrit::solve(world(), 1.0, 32, decay, {.final_relaxation = {.store_all = true}, .costs = costs});
  EXPECT_NEAR(u.end, in_series(1.0, 32, 1, decay).back(), 1e-13);
  if (world().size() == 2) {
    EXPECT_EQ(u.values.size(), world().rank() == 0 ? 5U : 28U);
  }
}

TEST(Ode, BeginsWithTheGuess) {
  const double at_end = std::exp(-1.0);
  const auto solved = [&](std::function<double(double)> guess) {
    return mgrit::solve(world(), 1.0, 64, decay, {.solver = {.iterations = 1}, .guess = std::move(guess)}).report.residuals[0];
  };
  EXPECT_FALSE(solved({}).has_value()) << "the first iteration skips its way down";
  EXPECT_LT(solved([](double t) { return std::exp(-t); }).value(), 0.1 * solved([&](double) { return at_end; }).value());
}

/// A step may use autograd, and no graph remains.
TEST(Ode, RecordsNothing) {
  const at::Tensor weight = at::full({2}, 0.5, at::kDouble).set_requires_grad(true);
  const auto [u, report] = mgrit::solve(world(), weight.clone(), 16, [&](double, double dt, const at::Tensor& v) { return v - dt * weight * v; },
                                        {.final_relaxation = {.store_all = true}});
  EXPECT_FALSE(u.end.requires_grad());
  for (const at::Tensor& value : u.values) EXPECT_FALSE(value.requires_grad());
}

TEST(Ode, ReleasesTheOthersWhereAStepThrows) {
  struct Own {};
  for (const bool standard : {true, false}) {
    for (const int64_t which : {0, 13, 31}) {
      const auto step = [&](double t, double dt, double u) {
        if (std::lround(t * 32) == which && dt < 0.05) {
          if (!standard) throw Own();
          throw std::domain_error("no value at this step");
        }
        return u / (1 + dt);
      };
      int thrown = 0;
      int released = 0;
      try {
        mgrit::solve(world(), 1.0, 32, step);
      } catch (const std::domain_error&) {
        ++thrown;
      } catch (const RevokedError& error) {
        ++released;
        EXPECT_NE(std::string(error.what()).find(standard ? "no value at this step" : "not a std::exception"), std::string::npos) << error.what();
      } catch (const Own&) {
        ++thrown;
      }
      const at::Tensor counts = at::tensor({thrown, released});
      EXPECT_FALSE(world().revoked());
      allreduce(world(), counts, ReduceOp::sum);
      EXPECT_EQ(counts[0].item<int>(), 1) << "the rank whose step it is";
      EXPECT_EQ(counts[1].item<int>(), world().size() - 1);
    }
  }
}

/// The message of the exception that a call throws; the ranks synchronise afterwards.
template <class F>
std::string error_of(const F& f) {
  std::string what;
  try {
    f();
  } catch (const std::exception& error) {
    what = error.what();
  }
  barrier(world());
  return what;
}

TEST(Ode, NamesTheStepThatChangesAState) {
  for (const int kind : {0, 1, 2, 3}) {
    const std::string what = error_of([&] {
      mgrit::solve(world(), State{at::full({1}, 1.0, at::kDouble)}, 32,
                   [&](double t, double dt, const State& u) -> State {
                     if (std::lround(t * 32) != 13 || dt > 0.05) return {u[0] * 0.9};
                     if (kind == 0) return {at::zeros({2}, at::kDouble)};
                     if (kind == 1) return {u[0].to(at::kFloat)};
                     if (kind == 2) return {u[0], u[0]};
                     return {at::Tensor()};
                   },
                   {});
    });
    const std::string to[] = {"float64 [2]", "float32 [1]", "float64 [1], float64 [1]", "an undefined tensor"};
    EXPECT_NE(what.find("step 13 of level 0 changes the state from float64 [1] to " + to[kind]), std::string::npos) << what;
  }
}

/// A propagator that makes many steps at the same time and returns states of a different shape.
TEST(Ode, NamesTheSweepThatChangesStates) {
  class Widening : public Propagator {
   public:
    State march(const March& march, const State& from, const Between&) override {
      if (march.level == 1) return {at::cat({from[0], from[0]}, 1)};
      return from;
    }
  };
  const std::string what = error_of([] {
    const Communicator comm = world().dup();
    Mgrit mgrit(comm, LevelPlan(plan_levels(32), partition_steps(32, world().size(), 4), StepOwner::right), {});
    Widening widening;
    mgrit.solve(widening, {at::full({1}, 1.0, at::kDouble)});
  });
  EXPECT_NE(what.find("of level 1 from point"), std::string::npos) << what;
  EXPECT_NE(what.find("expected a stack of float64 [1]"), std::string::npos) << what;
}

// Points that lie closer and closer: u' = -u by backward Euler, exact after enough iterations. Each step receives its own t and dt.
TEST(Ode, StepsMayDiffer) {
  std::vector<double> times(34);
  for (size_t k = 0; k < times.size(); ++k) times[k] = 2 - std::pow(0.9, static_cast<double>(k));
  const auto step = [&](double t, double dt, double u) {
    const auto from = std::ranges::min_element(times, {}, [&](double each) { return std::abs(each - t); });
    EXPECT_EQ(*from, t) << "a point";
    EXPECT_TRUE(std::ranges::any_of(times, [&](double each) { return std::abs(each - (t + dt)) < 1e-14; })) << "to a point";
    return u / (1 + dt);
  };
  double expected = 1;
  for (size_t k = 0; k + 1 < times.size(); ++k) expected /= 1 + times[k + 1] - times[k];
  const mgrit::Options<double> options{.levels = 3, .coarsening = 3, .min_coarse = 1, .solver = {.iterations = 11}, .times = times};
  EXPECT_NEAR(mgrit::solve(world(), 1.0, 33, step, options).u.end, expected, 1e-13);
}

TEST(Ode, RefusesWhatIsWrongOrDiffersBetweenRanks) {
  const auto refused = [](const char* why, double u0, int64_t steps, const mgrit::Options<double>& options) {
    const std::string what = error_of([&] { mgrit::solve(world(), u0, steps, decay, options); });
    EXPECT_NE(what.find(why), std::string::npos) << what;
  };
  refused("at least one step", 1, 0, {});
  refused("final_time must be positive, got 0", 1, 8, {.final_time = 0});
  refused("levels must be at least 1", 1, 8, {.levels = 0});
  refused("iterations must be at least 0", 1, 8, {.solver = {.iterations = -1}});
  refused("2 costs for 8 steps", 1, 8, {.costs = {1, 1}});
  refused("costs must be at least 0", 1, 2, {.costs = {1, -1}});
  refused("2 times for the 9 points", 1, 8, {.times = {0, 1}});
  refused("times must ascend", 1, 2, {.times = {0, 1, 1}});
  EXPECT_NE(error_of([] {
              mgrit::solve(world(), at::zeros({2}, at::kLong), 8, [](double, double, const at::Tensor& u) { return u; });
            }).find("int64 [2]; a state's tensors must be floating-point"),
            std::string::npos);
  EXPECT_NE(
      error_of([] { mgrit::solve(world(), State{}, 8, [](double, double, const State& u) { return u; }); }).find("must hold at least one tensor"),
      std::string::npos);
  if (world().size() == 1) return;
  const bool last = world().rank() == world().size() - 1;
  const std::string rank = "rank " + std::to_string(world().size() - 1);
  refused((rank + " has 'levels 3' where rank 0 has 'levels 2'").c_str(), 1, 32, {.levels = last ? 3 : 2});
  refused((rank + " has 'steps 33'").c_str(), 1, last ? 33 : 32, {});
  refused((rank + " has 'tolerance 0.5'").c_str(), 1, 32, {.solver = {.tolerance = last ? 0.5 : 0}});
  EXPECT_NE(error_of([&] {
              mgrit::solve(world(), at::zeros({last ? 3 : 2}, at::kDouble), 8, [](double, double, const at::Tensor& u) { return u; });
            }).find("has 'u_0 float64 [3]' where rank 0 has 'u_0 float64 [2]'"),
            std::string::npos);
}

}  // namespace ode_test
}  // namespace tw::layer_parallel
