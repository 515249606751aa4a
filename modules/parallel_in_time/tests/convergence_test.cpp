// SPDX-License-Identifier: Apache-2.0
// Behaviour of the iterations: when they are exact, how residuals fall, what they cost, and what happens if they do not converge.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <tw/comm/collectives.hpp>
#include <tw/parallel_in_time/ode.hpp>

#include "mpi_test.hpp"
#include "problems.hpp"

namespace tw::layer_parallel {
namespace convergence_test {

using testing::world;

double max_over_ranks(double value) {
  const at::Tensor tensor = mgrit::tensor_of({&value, 1});
  allreduce(world(), tensor, ReduceOp::max);
  return tensor.item<double>();
}

using Pair = std::array<double, 2>;

/// Rotates by the same angle whatever the step length, so coarse steps are useless. Errors stay or grow until the iterations are exact.
Pair turn(double t, double, const Pair& u) {
  const double c = std::cos(0.7);
  const double s = std::sin(0.7);
  return {c * u[0] - s * u[1] + std::cos(t), s * u[0] + c * u[1]};
}

template <class T, class Step>
std::vector<T> in_series(T u, int64_t steps, double final_time, const Step& step) {
  const double dt = final_time / static_cast<double>(steps);
  std::vector<T> values{u};
  for (int64_t k = 0; k < steps; ++k) values.push_back(step(static_cast<double>(k) * dt, dt, values.back()));
  return values;
}

/// The largest difference from `serial` at any point of any rank.
double error_of(const mgrit::Trajectory<Pair>& u, const std::vector<Pair>& serial) {
  double error = std::max(std::abs(u.end[0] - serial.back()[0]), std::abs(u.end[1] - serial.back()[1]));
  for (size_t i = 0; i < u.values.size(); ++i) {
    const Pair& expected = serial[static_cast<size_t>(u.first) + i * static_cast<size_t>(u.spacing)];
    for (size_t j = 0; j < 2; ++j) error = std::max(error, std::abs(u.values[i][j] - expected[j]));
  }
  return max_over_ranks(error);
}

struct Exactness {
  int64_t steps;
  int64_t c;
  int nu;
  int levels = 2;
  bool skip = false;
  bool last_c_relaxation = false;

  int iterations() const {
    // Intervals that must be exact before the last relaxation. The remainder after whole intervals counts as one interval with the last C-relaxation,
    // and as part of the last interval without it.
    const auto intervals = static_cast<int>(last_c_relaxation ? (steps + c - 1) / c - 1 : steps / c);
    return (intervals + nu) / (1 + nu) + (skip ? 1 : 0);
  }
};

double error_after(const Exactness& e, int iterations) {
  const Pair u0{1, 0};
  const auto [u, report] = mgrit::solve(world(), u0, e.steps, turn,
                                        {.levels = e.levels,
                                         .coarsening = e.c,
                                         .solver = {.iterations = iterations, .cycle = {.relaxations = e.nu, .skip_downcycle = e.skip}},
                                         .final_relaxation = {.last_c_relaxation = e.last_c_relaxation, .store_all = true}});
  return error_of(u, in_series(u0, e.steps, 1, turn));
}

TEST(Mgrit, IsExactAfterAsManyIterationsAsTheTheoremSaysAndNotBefore) {
  for (const bool skip : {false, true}) {
    for (const bool last : {false, true}) {
      for (const Exactness& e : {Exactness{64, 16, 0}, Exactness{64, 16, 1}, Exactness{64, 8, 0}, Exactness{64, 8, 1}, Exactness{60, 5, 2},
                                 Exactness{62, 5, 0}, Exactness{63, 5, 1}, Exactness{64, 4, 1, 3}, Exactness{64, 2, 0, 4}}) {
        const Exactness now{e.steps, e.c, e.nu, e.levels, skip, last};
        const int k = now.iterations();
        const std::string what = std::to_string(e.steps) + " steps, c = " + std::to_string(e.c) + ", nu = " + std::to_string(e.nu) + ", " +
                                 std::to_string(e.levels) + " levels" + (skip ? ", skip" : "") + (last ? ", FC" : "");
        EXPECT_LT(error_after(now, k), 1e-7) << what << ": " << k;
        // With more levels, errors may vanish earlier by chance; with two they are of order 1.
        if (e.levels == 2) {
          EXPECT_GT(error_after(now, k - 1), 1e-3) << what << ": " << k - 1;
        }
      }
    }
  }
  EXPECT_EQ((Exactness{64, 16, 0}.iterations()), 4);
  EXPECT_EQ((Exactness{64, 8, 1}.iterations()), 4);
}

// One iteration with skip and no relaxation is the coarse solution. The last C-relaxation makes one step into each C-point, and averages with
// weights.
TEST(Mgrit, TheLastRelaxationIsWeighted) {
  const Pair u0{1, 0};
  const auto solved = [&](bool last, double weight) {
    return mgrit::solve(world(), u0, 32, turn,
                        {.coarsening = 4,
                         .solver = {.iterations = 1, .cycle = {.relaxations = 0}, .weights = weight},
                         .final_relaxation = {.last_c_relaxation = last}})
        .u.end;
  };
  const Pair before = solved(false, 1);
  const Pair after = solved(true, 1);
  const Pair between = solved(true, 1.5);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(between[i], 1.5 * after[i] - 0.5 * before[i], 1e-13);
  EXPECT_GT(std::abs(after[0] - before[0]), 1e-3);
}

TEST(Mgrit, HasNoResidualWhereItBeginsFromTheSerialSolution) {
  const Pair u0{1, 0};
  const std::vector<Pair> serial = in_series(u0, 64, 64.0, turn);
  for (const int f_cycle : {0, 1}) {
    const auto [u, report] = mgrit::solve(world(), u0, 64, turn,
                                          {.final_time = 64,
                                           .levels = 3,
                                           .solver = {.iterations = 3, .cycle = {.relaxations = {1, 0}, .f_cycle = f_cycle}, .weights = 1.3},
                                           .final_relaxation = {.store_all = true},
                                           .guess = [&](double t) { return serial[static_cast<size_t>(std::lround(t))]; }});
    ASSERT_EQ(report.residuals.size(), 3U);
    EXPECT_EQ(report.residuals[0], 0.0) << "the same steps from the same values";
    for (const auto& residual : report.residuals) EXPECT_LT(residual.value(), 1e-12);
    EXPECT_FALSE(report.diverged);
    EXPECT_LT(error_of(u, serial), 1e-12);
  }
}

/// u' = -a u by backward Euler on two levels, where the residual r at C-points is all that matters. Relaxation maps it to (I - w A) r, and the
/// correction to (I - A B^-1) r, with A = I - phi^c L and B = I - phi_c L, where L is the shift to the next C-point.
struct Dahlquist {
  double fine;    // phi^c
  double coarse;  // phi_c
  std::vector<double> r;

  Dahlquist(double h, int64_t c, int64_t intervals, double guess)
      : fine(std::pow(1 / (1 + h), static_cast<double>(c))), coarse(1 / (1 + h * static_cast<double>(c))), r(static_cast<size_t>(intervals)) {
    for (size_t i = 0; i < r.size(); ++i) r[i] = fine * (i == 0 ? 1 : guess) - guess;
  }
  void relax(double w) {
    for (size_t i = r.size(); i-- > 0;) r[i] = (1 - w) * r[i] + (i > 0 ? w * fine * r[i - 1] : 0);
  }
  void correct() {
    double z = 0;
    for (double& each : r) {
      const double before = z;
      z = each + coarse * before;
      each -= z - fine * before;
    }
  }
  double norm() const {
    double sum = 0;
    for (const double each : r) sum += each * each;
    return std::sqrt(sum);
  }
  /// Bound of the convergence factor. Ref: Dobrev et al. 2017, SISC 39:5.
  double bound(int nu) const {
    return std::abs(coarse - fine) * (1 - std::pow(coarse, static_cast<double>(r.size()))) / (1 - coarse) * std::pow(fine, nu);
  }
};

TEST(Mgrit, HasTheResidualsAndConvergenceFactorsOfTheScalarProblem) {
  constexpr int64_t steps = 128;
  constexpr double h = 0.1;
  for (const int64_t c : {2, 4, 16}) {
    for (const int nu : {0, 1, 2}) {
      for (const double w : {1.0, 1.3, 0.7}) {
        Dahlquist theory(h, c, steps / c, 0.456);
        const double bound = theory.bound(nu);
        const auto [u, report] = mgrit::solve(
            world(), 1.0, steps, [](double, double dt, double v) { return v / (1 + dt); },
            {.final_time = h * steps, .coarsening = c, .solver = {.iterations = 6, .cycle = {.relaxations = nu}, .weights = w}, .guess = [](double) {
               return 0.456;
             }});
        ASSERT_EQ(report.residuals.size(), 6U);
        for (int i = 0; i < 6; ++i) {
          for (int j = 0; j < nu; ++j) theory.relax(w);
          const double expected = theory.norm();
          EXPECT_NEAR(report.residuals[static_cast<size_t>(i)].value(), expected, 1e-10 * expected + 1e-14) << c << ' ' << nu << ' ' << w << ' ' << i;
          if (w == 1 && i > 0 && expected > 1e-12) {
            EXPECT_LE(report.convergence_factor(i).value(), bound * (1 + 1e-9)) << c << ' ' << nu << ' ' << i;
          }
          theory.correct();
        }
      }
    }
  }
}

TEST(Mgrit, StopsBelowItsTolerance) {
  const auto solved = [](double tolerance, bool residuals) {
    return mgrit::solve(world(), 1.0, 128, [](double, double dt, double v) { return v / (1 + dt); },
                        {.final_time = 12.8, .coarsening = 4, .solver = {.iterations = 9, .tolerance = tolerance, .residuals = residuals}})
        .report;
  };
  const Report whole = solved(0, true);
  EXPECT_EQ(whole.iterations, 9);
  EXPECT_FALSE(whole.converged);
  EXPECT_FALSE(whole.residuals[0].has_value()) << "of the downcycle that was skipped";
  const double between = std::sqrt(*whole.residuals[2] * *whole.residuals[3]);
  const Report stopped = solved(between, true);
  EXPECT_EQ(stopped.iterations, 4);
  EXPECT_TRUE(stopped.converged);
  EXPECT_EQ(stopped.residuals.back(), whole.residuals[3]);
  const Report silent = solved(0, false);
  EXPECT_EQ(silent.iterations, 9);
  for (const auto& residual : silent.residuals) EXPECT_FALSE(residual.has_value());
  EXPECT_THROW(solved(1e-3, false), ContractError);
}

TEST(Mgrit, ConvergesAtLeastAsFastByFCyclesAsByVCycles) {
  const Problem problem = heat(64, 17);
  const auto residuals = [&](int f_cycle) {
    return mgrit::solve(world(), problem.origin, 64, [&](double t, double dt, const at::Tensor& u) { return problem.step(u, t, t + dt); },
                        {.final_time = problem.final_time,
                         .levels = 5,
                         .coarsening = 2,
                         .solver = {.iterations = 6, .cycle = {.skip_downcycle = false, .f_cycle = f_cycle}}})
        .report.residuals;
  };
  const auto v = residuals(0);
  const auto f = residuals(1);
  for (size_t i = 1; i < v.size(); ++i) EXPECT_LT(*f[i], *v[i] * (1 + 1e-9)) << i;
  EXPECT_LT(*f.back(), 0.5 * *v.back());
}

TEST(Mgrit, MakesTheStepsAndSendsTheMessagesOfItsPlan) {
  const State origin{at::full({3}, 1.0, at::kDouble), at::full({2, 2}, 0.5, at::kFloat)};
  constexpr int64_t bytes_of_a_state = 3 * 8 + 4 * 4;
  for (const int64_t steps : {3, 32, 67, 100}) {
    for (const int levels : {1, 2, 3}) {
      for (const int f_cycle : {0, 1}) {
        for (const StepOwner owner : {StepOwner::left, StepOwner::right}) {
          for (const bool last : {false, true}) {
            const LevelPlan plan(plan_levels(steps, {.levels = levels, .coarsening = {4, 2}}), partition_steps(steps, world().size(), 4), owner);
            const CycleOptions cycle{.relaxations = {1, 2}, .f_cycle = f_cycle};
            Mgrit mgrit(world(), plan, {.iterations = 3, .cycle = cycle}, {.last_c_relaxation = last});
            int64_t called = 0;
            StepwisePropagator steps_made([&](const March&, int64_t, const State& from) -> State {
              ++called;
              return {from[0] * 0.9, from[1] * 0.8};
            });
            const Report report = mgrit.solve(steps_made, origin).report;

            const auto ends_with = last || plan.levels() == 1 ? SweepKind::all : SweepKind::fill;
            const SweepCost end = cost_of(plan_sweep(plan, 0, ends_with, world().rank()));
            std::vector<int64_t> made(static_cast<size_t>(plan.levels()), 0);
            std::vector<int64_t> sent = made;
            made[0] = end.steps;
            sent[0] = end.messages;
            for (int i = 0; i < 3 && plan.levels() > 1; ++i) {
              for (const Phase& phase : plan_cycle(plan.levels(), cycle, i == 0)) {
                for (const auto& [level, kind] : sweeps_of(phase)) {
                  const SweepCost cost = cost_of(plan_sweep(plan, level, kind, world().rank()));
                  made[static_cast<size_t>(level)] += cost.steps;
                  sent[static_cast<size_t>(level)] += cost.messages;
                }
              }
            }
            int64_t all_made = 0;
            int64_t all_sent = 0;
            for (size_t l = 0; l < made.size(); ++l) {
              EXPECT_EQ(report.steps[l], made[l]) << steps << " steps, level " << l;
              EXPECT_EQ(report.messages[l], 2 * sent[l]) << steps << " steps, level " << l;
              all_made += made[l];
              all_sent += sent[l];
            }
            EXPECT_EQ(called, all_made);
            EXPECT_EQ(report.bytes, all_sent * bytes_of_a_state);
          }
        }
      }
    }
  }
}

TEST(Mgrit, TakesNoRoundingForDivergence) {
  for (const int64_t steps : {20, 32, 40, 64}) {
    for (const int iterations : {14, 15, 16, 17, 18}) {
      const auto [u, report] = mgrit::solve(
          world(), Pair{1, 0}, steps,
          [](double, double dt, const Pair& v) -> Pair { return {(v[0] - dt * v[1]) / (1 + dt * dt), (v[1] + dt * v[0]) / (1 + dt * dt)}; },
          {.final_time = 4, .coarsening = 2, .solver = {.iterations = iterations, .on_divergence = OnDivergence::serial}});
      EXPECT_LT(report.residuals.back().value(), 1e-13);
      EXPECT_FALSE(report.diverged) << report.describe();
      EXPECT_FALSE(report.serial);
    }
  }
}

TEST(Mgrit, DoesAsItIsToldWhereItDiverges) {
  const Pair u0{1, 0};
  const std::vector<Pair> serial = in_series(u0, 64, 1, turn);
  const auto solved = [&](OnDivergence reaction) {
    return mgrit::solve(world(), u0, 64, turn,
                        {.coarsening = 8,
                         .solver = {.iterations = 4, .cycle = {.relaxations = 0, .skip_downcycle = false}, .on_divergence = reaction},
                         .final_relaxation = {.store_all = true}});
  };
  const auto [reported, report] = solved(OnDivergence::report);
  EXPECT_TRUE(report.diverged);
  EXPECT_EQ(report.iterations, 4);
  EXPECT_GT(error_of(reported, serial), 1e-3);
  const auto [exact, more] = solved(OnDivergence::more_iterations);
  EXPECT_EQ(more.iterations, 8);
  EXPECT_LT(error_of(exact, serial), 1e-7);
  const auto [stepped, one_by_one] = solved(OnDivergence::serial);
  EXPECT_TRUE(one_by_one.diverged && one_by_one.serial && one_by_one.converged);
  EXPECT_EQ(one_by_one.residuals, report.residuals);
  EXPECT_LT(error_of(stepped, serial), 1e-12);
  const int64_t share = static_cast<int64_t>(stepped.values.size()) - (world().rank() == 0 ? 1 : 0);
  EXPECT_EQ(one_by_one.steps.size(), 2U) << "those of the iterations are counted as well";
  EXPECT_EQ(one_by_one.steps[0],
            report.steps[0] -
                cost_of(plan_sweep(LevelPlan(plan_levels(64, {.coarsening = 8}), partition_steps(64, world().size(), 8), StepOwner::right), 0,
                                   SweepKind::fill, world().rank()))
                    .steps +
                share);
}

/// All ranks must notice a NaN on one of them, even if it appears in the last correction.
TEST(Mgrit, EndsWhereAValueIsNotFinite) {
  for (const double from : {0.6, 0.9}) {
    const auto step = [from](double t, double dt, double v) { return v * (t > from ? std::sqrt(1 - 50 * dt) : 1 - 0.5 * dt); };
    const double expected = in_series(1.0, 64, 1, step).back();
    for (const OnDivergence reaction : {OnDivergence::report, OnDivergence::more_iterations, OnDivergence::serial}) {
      const auto [u, report] = mgrit::solve(
          world(), 1.0, 64, step,
          {.coarsening = 4, .solver = {.iterations = 6, .tolerance = 1e-300, .cycle = {.skip_downcycle = false}, .on_divergence = reaction}});
      EXPECT_TRUE(report.diverged) << from;
      EXPECT_EQ(report.converged, report.serial);
      EXPECT_EQ(report.serial, reaction == OnDivergence::serial);
      if (report.serial) {
        EXPECT_NEAR(u.end, expected, 1e-14);
      } else {
        EXPECT_FALSE(std::isfinite(u.end));
      }
      // Each relaxation fixes a wrong value at the last C-point, and each correction restores it.
      EXPECT_EQ(std::isfinite(report.residuals.back().value()), from == 0.9);
      EXPECT_EQ(report.iterations == 2, from == 0.6) << "the second sees what the first has left";
    }
  }
}

TEST(Mgrit, ASerialSolutionThatIsNotFiniteHasNotConverged) {
  const auto step = [](double t, double, double v) { return t > 0.6 ? std::nan("") : v / 2; };
  const auto [u, report] = mgrit::solve(world(), 1.0, 64, step, {.solver = {.iterations = 3, .on_divergence = OnDivergence::serial}});
  EXPECT_TRUE(report.serial && report.diverged);
  EXPECT_FALSE(report.converged);
  EXPECT_NE(report.describe().find("diverged, then solved serially; "), std::string::npos);
  EXPECT_EQ(report.describe().find("converged"), std::string::npos);
}

TW_TEST_ON(Mgrit, RefusesOptionsThatDifferBetweenRanks, {.least = 2}) {
  const LevelPlan plan(plan_levels(32), partition_steps(32, world().size(), 4), StepOwner::right);
  MgritOptions options;
  if (world().rank() == world().size() - 1) options.iterations = 11;
  try {
    Mgrit(world(), plan, options);
    ADD_FAILURE() << "accepted";
  } catch (const ContractError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("rank " + std::to_string(world().size() - 1) + " has 'iterations 11' where rank 0 has 'iterations 10'"), std::string::npos)
        << what;
  }
}

}  // namespace convergence_test
}  // namespace tw::layer_parallel
