// SPDX-License-Identifier: Apache-2.0
// The V-cycle of MG/OPT for a functional of a curve, discretised with several step sizes, in one process.
#include "mgopt_cycle.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace tw::layer_training {
namespace mgopt_cycle_test {

/// dt sum ((x_k - goal(t_k))^2 + x_k^4) / 2 over `n` steps of [0, 1], plus dt sum ((x_{k+1} - x_k) / dt)^2 smoothness / 2, and its gradient.
struct Functional {
  int64_t n;
  double smoothness = 0.01;

  double dt() const { return 1 / static_cast<double>(n); }
  Evaluation operator()(const Vector& x, bool with_gradient) const {
    const torch::Tensor curve = x.at(0).clone().set_requires_grad(true);
    const torch::Tensor t = (torch::arange(n, torch::kDouble) + 0.5) * dt();
    const torch::Tensor goal = torch::sin(6 * t);
    const torch::Tensor rise = (curve.narrow(0, 1, n - 1) - curve.narrow(0, 0, n - 1)) / dt();
    const torch::AutoGradMode gradients(true);
    const torch::Tensor value = dt() / 2 * ((curve - goal).square().sum() + curve.pow(4).sum() + smoothness * rise.square().sum());
    if (!with_gradient) return {value.item<double>(), {}};
    return {value.item<double>(), torch::autograd::grad({value}, {curve})};
  }
};

torch::Tensor children(const torch::Tensor& fine, int64_t c) { return fine.view({-1, c}); }

/// Levels of n, n / c, ... steps; calls of evaluate are counted.
std::vector<MgOptLevel> hierarchy(int64_t n, int64_t c, int count, std::vector<double>* evaluations = nullptr) {
  std::vector<MgOptLevel> levels;
  for (int l = 0; l < count; ++l, n /= c) {
    MgOptLevel& level = levels.emplace_back();
    level.cost = l == 0 ? 1 : levels[static_cast<size_t>(l) - 1].cost / static_cast<double>(c);
    level.evaluate = [f = Functional{n}, evaluations, cost = level.cost](const Vector& x, bool with_gradient) {
      if (evaluations != nullptr) evaluations->push_back(with_gradient ? cost : cost / 3);
      return f(x, with_gradient);
    };
    level.inner = [](const Vector& a, const Vector& b) { return a.at(0).dot(b.at(0)).item<double>(); };
    if (l + 1 == count) break;
    level.restrict_point = [c](const Vector& x) { return Vector{children(x.at(0), c).mean(1)}; };
    level.restrict_gradient = [c](const Vector& g) { return Vector{children(g.at(0), c).sum(1)}; };
    level.prolong = [c](const Vector& e) { return Vector{e.at(0).repeat_interleave(c)}; };
  }
  return levels;
}

/// A common mistake: takes the gradient at the first child instead of the sum over children.
void inject_gradients(std::vector<MgOptLevel>& levels, int64_t c) {
  levels[0].restrict_gradient = [c](const Vector& g) { return Vector{children(g.at(0), c).select(1, 0)}; };
}

constexpr int64_t n = 64;
constexpr int64_t c = 4;

Vector beginning() {
  torch::manual_seed(1);
  return {torch::randn({n}, torch::kDouble)};
}

/// The slope of the correction after one coarse step of rate 1. The correction is then the negative gradient of the shifted coarse objective,
/// prolonged. Its slope is -|P^T g|^2 if that gradient is P^T g.
double slope_of_one_coarse_step(const std::vector<MgOptLevel>& levels, Vector x) {
  return mgopt_cycle(levels, {.learning_rate = 1, .pre_steps = 0, .post_steps = 0, .coarse_steps = 1}, x).corrections.at(0).slope;
}

TEST(MgOptCycle, TheCoarseObjectiveIsTheFineOneToFirstOrder) {
  const Vector x = beginning();
  const torch::Tensor seen = children(Functional{n}(x, true).gradient[0], c).sum(1);
  const double expected = -seen.dot(seen).item<double>();
  std::vector<MgOptLevel> levels = hierarchy(n, c, 2);
  EXPECT_NEAR(slope_of_one_coarse_step(levels, x), expected, 1e-13 * -expected);
  inject_gradients(levels, c);
  EXPECT_GT(std::abs(slope_of_one_coarse_step(levels, x) - expected), 0.5 * -expected);
}

/// The first child of each group pulls in the opposite direction: the sum descends, and the injected gradient leads uphill.
TEST(MgOptCycle, TheSumOverChildrenDescendsAndInjectionDoesNot) {
  const torch::Tensor pull = torch::tensor({1.0, -1.0, -1.0, -1.0}, torch::kDouble).repeat(n / c);
  std::vector<MgOptLevel> levels = hierarchy(n, c, 2);
  for (size_t l = 0; l < 2; ++l) {  // f(x) = dt (<pull, x> + |x|^2 / 2), with the means of pull on the coarse level
    const torch::Tensor slope = l == 0 ? pull : children(pull, c).mean(1);
    levels[l].evaluate = [slope, dt = 1.0 / static_cast<double>(slope.size(0))](const Vector& x, bool) {
      return Evaluation{dt * (slope.dot(x[0]) + x[0].dot(x[0]) / 2).item<double>(), {dt * (slope + x[0])}};
    };
  }
  const MgOptOptions options{.learning_rate = 1, .post_steps = 0, .coarse_steps = 20};
  Vector x{torch::zeros({n}, torch::kDouble)};
  const MgOptReport right = mgopt_cycle(levels, options, x);
  EXPECT_LT(right.corrections[0].slope, 0);
  EXPECT_EQ(right.corrections[0].alpha, 1);
  EXPECT_LT(right.loss_after, right.loss_before);

  inject_gradients(levels, c);
  x = {torch::zeros({n}, torch::kDouble)};
  const MgOptReport wrong = mgopt_cycle(levels, options, x);
  EXPECT_GT(wrong.corrections[0].slope, 0);
  EXPECT_TRUE(wrong.corrections[0].is_cancelled());
  EXPECT_EQ(x[0].abs().sum().item<double>(), 0) << "a cancelled correction leaves the point";
}

/// Found by gradient steps on a single level.
torch::Tensor minimum() {
  torch::Tensor x = beginning()[0];
  for (int step = 0; step < 4000; ++step) x = x.sub(Functional{n}({x}, true).gradient[0], 0.4);
  return x;
}

TEST(MgOptCycle, NothingMovesWhereTheGradientIsZero) {
  const std::vector<MgOptLevel> levels = hierarchy(n, c, 2);
  const torch::Tensor solution = minimum();
  Vector x{solution.clone()};
  mgopt_cycle(levels, {.learning_rate = {0.4, 0.1}, .pre_steps = 1, .coarse_steps = 50}, x);
  EXPECT_LE((x[0] - solution).norm().item<double>(), 1e-8 * solution.norm().item<double>());
}

/// Gradient steps of the finest level reduce the smooth part of the error slowly, coarse ones quickly.
TEST(MgOptCycle, ConvergesFasterThanGradientStepsOfTheSameWork) {
  const double least = Functional{n}({minimum()}, false).value;
  for (const int count : {2, 3}) {
    std::vector<double> evaluations;
    const std::vector<MgOptLevel> levels = hierarchy(n, c, count, &evaluations);
    Vector x = beginning();
    double work = 0;
    for (int cycle = 0; cycle < 20; ++cycle) work += mgopt_cycle(levels, {.learning_rate = {0.7, 0.7, 0.7}, .pre_steps = 1}, x).work;
    double counted = 0;
    for (const double cost : evaluations) counted += cost;
    EXPECT_NEAR(work, counted, 1e-12 * counted);
    Vector plain = beginning();
    for (int step = 0; step < static_cast<int>(work); ++step) plain[0] = plain[0].sub(levels[0].evaluate(plain, true).gradient[0], 0.7);
    const auto above_least = [&](const Vector& at) { return Functional{n}(at, false).value - least; };
    EXPECT_LT(above_least(x), 0.5 * above_least(plain)) << count << " levels";
  }
}

/// Coarse steps that are too long increase the loss. The correction is shortened, and dropped if that does not help.
TEST(MgOptCycle, TheLineSearchHalvesAndGivesUp) {
  const std::vector<MgOptLevel> levels = hierarchy(n, c, 2);
  for (const int halvings : {0, 10}) {
    Vector x = beginning();
    const Vector before{x[0].clone()};
    const MgOptReport report = mgopt_cycle(levels, {.learning_rate = 12, .post_steps = 0, .coarse_steps = 1, .halvings = halvings}, x);
    EXPECT_LT(report.corrections[0].slope, 0);
    if (halvings == 0) {
      EXPECT_TRUE(report.corrections[0].is_cancelled());
      EXPECT_TRUE(x[0].equal(before[0]));
    } else {
      EXPECT_GT(report.corrections[0].alpha, 0);
      EXPECT_LT(report.corrections[0].alpha, 1);
      EXPECT_LT(report.loss_after, report.loss_before);
    }
  }
}

TEST(MgOptCycle, WhatIsNotANumberIsNotTaken) {
  std::vector<MgOptLevel> levels = hierarchy(n, c, 2);
  levels[1].evaluate = [](const Vector& x, bool) { return Evaluation{NAN, {torch::full_like(x[0], NAN)}}; };
  levels[0].restrict_gradient = [](const Vector&) { return Vector{torch::full({n / c}, NAN, torch::kDouble)}; };
  Vector x = beginning();
  const MgOptReport report = mgopt_cycle(levels, {.post_steps = 0}, x);
  EXPECT_TRUE(report.corrections[0].is_cancelled());
  EXPECT_TRUE(x[0].equal(beginning()[0]));
}

TEST(MgOptOptions, NamesWhatIsWrong) {
  const auto expect_refused = [](const MgOptOptions& options, const std::string& text) {
    try {
      options.validate();
      ADD_FAILURE() << text;
    } catch (const ContractError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  expect_refused({.learning_rate = {0.1, 0}}, "learning_rate");
  expect_refused({.pre_steps = -1}, "pre_steps");
  expect_refused({.post_steps = -1}, "post_steps");
  expect_refused({.coarse_steps = 0}, "coarse_steps");
  expect_refused({.halvings = -1}, "halvings");
}

}  // namespace mgopt_cycle_test
}  // namespace tw::layer_training
