// SPDX-License-Identifier: Apache-2.0
#include "cma_distribution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/evolution/draws.hpp>

#include "box_transform.hpp"
#include "cma_restarts.hpp"
#include "cma_termination.hpp"
#include "linear_algebra.hpp"

namespace tw::search {
namespace cma_distribution_test {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// One generation of `loss`, or of random ranks without a loss.
template <class Loss>
std::vector<double> advance(CmaDistribution& distribution, CounterRng& random, const Loss& loss) {
  const size_t lambda = distribution.parameters().lambda;
  std::vector<std::pair<double, VectorXd>> all(lambda);
  for (auto& [value, x] : all) {
    distribution.sample(random, x);
    value = loss(x);
  }
  std::ranges::sort(all, {}, [](const auto& each) { return each.first; });
  MatrixXd sorted(distribution.mean().size(), lambda);
  std::vector<double> losses;
  for (size_t i = 0; i < lambda; ++i) {
    sorted.col(static_cast<Index>(i)) = all[i].second;
    losses.push_back(all[i].first);
  }
  distribution.update(sorted, std::vector<CmaOrigin>(lambda), {});
  return losses;
}

TEST(CmaParameters, AreThoseOfTheTutorial) {
  const CmaParameters p(10, default_lambda(10), true);
  EXPECT_EQ(p.lambda, 10U);
  EXPECT_EQ(p.mu, 5U);
  // ln 5.5 - ln i, by hand
  EXPECT_NEAR(p.weights[0], 0.456272, 1e-6);
  EXPECT_NEAR(p.weights[4], 0.025510, 1e-6);
  EXPECT_NEAR(p.weights.head(5).sum(), 1, 1e-14);
  EXPECT_NEAR(p.mu_eff, 3.167299, 1e-6);
  EXPECT_NEAR(p.c_sigma, 5.167299 / 18.167299, 1e-6);
  EXPECT_NEAR(p.d_sigma, 1 + p.c_sigma, 1e-12);
  EXPECT_NEAR(p.c_c, (4 + .3167299) / (14 + 2 * .3167299), 1e-6);
  EXPECT_NEAR(p.c_1, 2 / (11.3 * 11.3 + 3.167299), 1e-9);
  EXPECT_NEAR(p.c_mu, 2 * (0.25 + 3.167299 + 1 / 3.167299 - 2) / (144 + 3.167299), 1e-8);
  EXPECT_NEAR(p.expected_norm, std::sqrt(10.0) * (1 - 1 / 40.0 + 1 / 2100.0), 1e-3);
  EXPECT_NEAR(p.weights.tail(5).sum(), -(1 + p.c_1 / p.c_mu), 1e-9);
  EXPECT_EQ(CmaParameters(10, 10, false).weights.tail(5).cwiseAbs().sum(), 0);
  EXPECT_EQ(default_lambda(1), 4U);
  EXPECT_GT(CmaParameters(1000, 24, true).eigen_every, 4U);
  for (const size_t n : {1, 2, 3, 40}) {
    for (const size_t lambda : {2, 3, 4, 100, 2000}) {
      const CmaParameters each(n, lambda, true);
      EXPECT_TRUE(each.weights.allFinite() && each.c_1 + each.c_mu <= 1 + 1e-12) << n << ' ' << lambda;
    }
  }
}

/// The equations of the tutorial, element by element.
struct Reference {
  std::vector<double> mean, path_sigma, path_c;
  std::vector<std::vector<double>> covariance;
  double sigma;
};

TEST(CmaDistribution, UpdatesByTheEquations) {
  const size_t n = 4;
  const CmaParameters p(n, 8, true);
  CmaDistribution distribution(VectorXd::Constant(4, 0.5), 0.3, p);
  CounterRng random(5);
  Reference r{std::vector<double>(n, 0.5), std::vector<double>(n), std::vector<double>(n), {}, 0.3};
  r.covariance.assign(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) r.covariance[i][i] = 1;
  std::vector<CmaOrigin> origins(8);
  origins[2] = CmaOrigin::foreign;
  origins[3] = CmaOrigin::late;
  origins[6] = CmaOrigin::late;
  origins[7] = CmaOrigin::foreign;
  int stopped = 0;
  for (int generation = 0; generation < 30; ++generation) {
    MatrixXd samples(4, 8);
    MatrixXd drawn = MatrixXd::Constant(4, 8, NAN);
    for (Index k = 0; k < 8; ++k) {
      VectorXd x;
      distribution.sample(random, x);
      // Some samples are far off: generation 4 makes the path long, and others must be shortened.
      const CmaOrigin origin = origins[static_cast<size_t>(k)];
      samples.col(k) = x.array() + (generation == 4 ? 1.0 : origin == CmaOrigin::current ? 0.0 : 3.0);
      if (origin == CmaOrigin::late) drawn.col(k) = distribution.step_to(x);
    }
    // C^-1/2 = B D^-1 B^T comes from the distribution; that it belongs to C is checked here.
    const MatrixXd root_inverse = distribution.axes() * distribution.lengths().cwiseInverse().asDiagonal() * distribution.axes().transpose();
    MatrixXd now(4, 4);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) now(static_cast<Index>(i), static_cast<Index>(j)) = r.covariance[i][j];
    }
    ASSERT_LT((root_inverse * now * root_inverse - MatrixXd::Identity(4, 4)).norm(), 1e-9) << generation;

    std::vector<std::vector<double>> y(8, std::vector<double>(n));
    std::vector<double> weights(8);
    VectorXd move = VectorXd::Zero(4);
    for (size_t k = 0; k < 8; ++k) {
      VectorXd step(4);
      for (size_t i = 0; i < n; ++i) step[static_cast<Index>(i)] = (samples(static_cast<Index>(i), static_cast<Index>(k)) - r.mean[i]) / r.sigma;
      double length = (root_inverse * step).norm();
      const double clip = origins[k] == CmaOrigin::current ? 1 : std::min(1.0, (2 + 8.0 / 6) / length);
      if (k < p.mu) move += p.weights[static_cast<Index>(k)] * clip * step;
      step *= clip;
      if (origins[k] == CmaOrigin::late) step = drawn.col(static_cast<Index>(k));
      length = (root_inverse * step).norm();
      for (size_t i = 0; i < n; ++i) y[k][i] = step[static_cast<Index>(i)];
      const double w = p.weights[static_cast<Index>(k)];
      weights[k] = w < 0 ? w * 4 / (length * length) : w;
    }
    VectorXd step = VectorXd::Zero(4);
    for (size_t k = 0; k < p.mu; ++k) {
      for (size_t i = 0; i < n; ++i) step[static_cast<Index>(i)] += weights[k] * y[k][i];
    }
    const VectorXd white = root_inverse * step;
    double square = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<Index>(i);
      r.mean[i] += r.sigma * move[at];
      r.path_sigma[i] = (1 - p.c_sigma) * r.path_sigma[i] + std::sqrt(p.c_sigma * (2 - p.c_sigma) * p.mu_eff) * white[at];
      square += r.path_sigma[i] * r.path_sigma[i];
    }
    const bool h = std::sqrt(square / (1 - std::pow(1 - p.c_sigma, 2 * (generation + 1)))) < (1.4 + 2.0 / 5) * p.expected_norm;
    stopped += static_cast<int>(!h);
    for (size_t i = 0; i < n; ++i) {
      r.path_c[i] = (1 - p.c_c) * r.path_c[i] + (h ? std::sqrt(p.c_c * (2 - p.c_c) * p.mu_eff) * step[static_cast<Index>(i)] : 0);
    }
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double c = (1 + (h ? 0 : p.c_1 * p.c_c * (2 - p.c_c)) - p.c_1 - p.c_mu * p.weights.sum()) * r.covariance[i][j];
        c += p.c_1 * r.path_c[i] * r.path_c[j];
        for (size_t k = 0; k < 8; ++k) c += p.c_mu * weights[k] * y[k][i] * y[k][j];
        r.covariance[i][j] = c;
      }
    }
    r.sigma *= std::exp(std::min(1.0, p.c_sigma / p.d_sigma * (std::sqrt(square) / p.expected_norm - 1)));

    distribution.update(samples, origins, drawn);
    EXPECT_NEAR(distribution.sigma() / r.sigma, 1, 1e-10);
    r.sigma = distribution.sigma();
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<Index>(i);
      EXPECT_NEAR(distribution.mean()[at], r.mean[i], 1e-10 * std::abs(r.mean[i]));
      EXPECT_NEAR(distribution.path()[at], r.path_c[i], 1e-9);
      for (size_t j = 0; j < n; ++j) EXPECT_NEAR(distribution.covariance()(at, static_cast<Index>(j)), r.covariance[i][j], 1e-9);
    }
  }
  EXPECT_TRUE(stopped > 0 && stopped < 15) << "h_sigma has to be 0 and 1: " << stopped;
}

TEST(CmaDistribution, SigmaIsStationaryUnderRandomSelection) {
  // With random ranks the path is N(0, 1), and log sigma changes by c/d (||p|| / E||p|| - 1), with mean 0. ||p|| / E||p|| has a variance of about 1 /
  // (2 n), and is correlated over 1 / c generations. The mean over T generations therefore has a deviation of c/d sqrt(1 / (2 n) 2 / (c T)).
  for (const size_t n : {2, 10, 30}) {
    const CmaParameters p(n, default_lambda(n), true);
    CounterRng random(n);
    CmaDistribution distribution(VectorXd::Zero(static_cast<Index>(n)), 1, p);
    const int generations = 4000;
    for (int i = 0; i < generations; ++i) advance(distribution, random, [&](const VectorXd&) { return uniform(random); });
    const double drift = std::log(distribution.sigma()) / generations;
    const double rate = p.c_sigma / p.d_sigma;
    const double deviation = rate * std::sqrt(1 / (2.0 * static_cast<double>(n)) * 2 / (p.c_sigma * generations));
    const double begin = rate / p.c_sigma / generations;  // the path starts at 0
    EXPECT_LT(std::abs(drift), 4 * deviation + begin) << n;
    // Why this matters: at a tenth of the rate, sigma would collapse to e^-300 in 4000 generations.
    EXPECT_LT(std::abs(drift), 0.1 * rate) << n;
  }
}

TEST(CmaDistribution, SigmaGrowsOnASlope) {
  CmaDistribution distribution(VectorXd::Zero(10), 1e-6, CmaParameters(10, 10, true));
  CounterRng random(1);
  for (int i = 0; i < 100; ++i) advance(distribution, random, [](const VectorXd& x) { return x.sum(); });
  EXPECT_GT(distribution.sigma(), 1e-2);
}

TEST(CmaDistribution, LearnsTheInverseHessian) {
  const size_t n = 8;
  CounterRng random(3);
  MatrixXd hessian(8, 8);
  for (double& each : hessian.reshaped()) each = normal(random);
  const MatrixXd axes = orthonormal(hessian);
  VectorXd scales(8);
  for (Index i = 0; i < 8; ++i) scales[i] = std::pow(1e6, static_cast<double>(i) / 7);
  hessian = matrix_of(axes, scales);
  CmaDistribution distribution(VectorXd::Ones(8), 0.5, CmaParameters(n, default_lambda(n), true));
  for (int i = 0; i < 600; ++i) advance(distribution, random, [&](const VectorXd& x) { return x.dot(hessian * x); });
  EXPECT_LT(distribution.mean().norm(), 1e-9);
  // C H is then a multiple of the identity, up to the noise of estimating 36 numbers; its condition was 1e6 at first.
  const MatrixXd root = matrix_of(axes, scales.cwiseSqrt());
  const Eigen::VectorXd product = eigensystem_of(root * distribution.covariance() * root).values;
  EXPECT_LT(product.maxCoeff() / product.minCoeff(), 30);
}

TEST(CmaDistribution, InjectedOutlierMovesItLittle) {
  const CmaParameters p(5, 8, true);
  MatrixXd samples = MatrixXd::Zero(5, 8);
  samples.col(0).setConstant(1e6);
  for (const CmaOrigin origin : {CmaOrigin::current, CmaOrigin::late, CmaOrigin::foreign}) {
    CmaDistribution distribution(VectorXd::Zero(5), 1, p);
    std::vector<CmaOrigin> origins(8);
    origins[0] = origin;
    distribution.update(samples, origins, MatrixXd::Ones(5, 8));
    const double most = p.weights[0] * (std::sqrt(5.0) + 10.0 / 7);
    EXPECT_EQ(distribution.mean().norm() < most * 1.0001, origin != CmaOrigin::current);
    EXPECT_LE(distribution.sigma(), std::exp(1.0) * 1.0001);
  }
}

TEST(CmaDistribution, StretchChangesSamplesAlone) {
  CounterRng random(1);
  CmaDistribution distribution(VectorXd::Zero(3), 0.1, CmaParameters(3, 7, true));
  distribution.set_stretch(VectorXd{{1.0, 50.0, 1.0}});
  VectorXd squares = VectorXd::Zero(3);
  VectorXd x;
  for (int i = 0; i < 4000; ++i) {
    distribution.sample(random, x);
    squares += x.cwiseAbs2() / 4000;
  }
  // The mean of 4000 squares has a deviation of sqrt(2 / 4000) = 2.2 %.
  EXPECT_NEAR(std::sqrt(squares[1]), 5, 0.3);
  EXPECT_NEAR(std::sqrt(squares[0]), 0.1, 0.006);
  for (int i = 0; i < 50; ++i) advance(distribution, random, [](const VectorXd& z) { return z[1] * z[1] / 2500 + z[0] * z[0] + z[2] * z[2]; });
  EXPECT_LT(distribution.condition(), 100) << "to the covariance the stretched sphere is a sphere";
}

TEST(CmaTermination, NamesTheReason) {
  const CmaParameters p(5, 8, true);
  const VectorXd middle = VectorXd::Constant(5, 0.5);
  const CmaDistribution start(middle, 0.3, p);
  const auto generations_until_stop = [&](const CmaDistribution& d, CmaStop reason, const auto& losses) {
    CmaTermination termination(p, 1e-12, 1e-12);
    for (int i = 1; i < 10000; ++i) {
      const CmaStop stop = termination.after(d, losses(i));
      if (stop == CmaStop::none) continue;
      EXPECT_EQ(stop, reason);
      return i;
    }
    ADD_FAILURE() << "never stops";
    return 0;
  };
  const auto improving = [](int i) { return std::vector<double>{1.0 / i, 2.0 / i, 3.0 / i}; };
  const int recent = 10 + 19;  // 10 + ceil(30 n / lambda)
  EXPECT_EQ(generations_until_stop(start, CmaStop::tol_fun, [](int) { return std::vector<double>{2, 2, 2}; }), recent);
  EXPECT_EQ(generations_until_stop(start, CmaStop::tol_fun_hist, [](int) { return std::vector<double>{2, 2, INFINITY}; }), recent);
  EXPECT_EQ(generations_until_stop(CmaDistribution(middle, 1e-13, p), CmaStop::tol_x, improving), 1);
  EXPECT_EQ(generations_until_stop(start, CmaStop::generations, improving), 100 + static_cast<int>(50 * 64 / std::sqrt(8.0)));
  CounterRng random(1);
  const int noise = generations_until_stop(start, CmaStop::stagnation, [&](int) {
    const double u = uniform(random);
    return std::vector<double>{u, 1 + u, 3};
  });
  EXPECT_GT(noise, 138);  // 120 + 30 n / lambda
  EXPECT_LT(noise, 400);
  // The mean is so large that adding a tenth of a deviation does not change it.
  EXPECT_EQ(generations_until_stop(CmaDistribution(VectorXd::Constant(5, 1e6), 1e-11, p), CmaStop::no_effect_axis, improving), 1);
}

TEST(CmaRestarts, SplitsTheBudget) {
  CmaRestarts restarts(CmaOptions::Restarts::bipop);
  CmaRunNumber run;
  int64_t small = 0;
  int64_t large = 0;
  int64_t last_large = 0;
  for (int i = 0; i < 60; ++i) {
    const CmaRunSettings settings = settings_of(run, 10, 0.2, 7);
    if (run.large) {
      EXPECT_EQ(settings.lambda, size_t{10} << run.doublings);
      EXPECT_EQ(settings.sigma, 0.2);
      EXPECT_EQ(restarts.limit(run), std::numeric_limits<int64_t>::max());
    } else if (run.restart > 0) {
      EXPECT_GE(settings.lambda, 10U);
      EXPECT_LE(settings.lambda, std::max(size_t{10}, size_t{5} << run.doublings));
      EXPECT_GE(settings.sigma, 0.2 * 0.01);
      EXPECT_LE(settings.sigma, 0.2);
      EXPECT_EQ(restarts.limit(run), last_large / 2);
    }
    const int64_t took = std::min(restarts.limit(run), static_cast<int64_t>(100 * settings.lambda));
    (run.large ? large : small) += took;
    if (run.large) last_large = took;
    EXPECT_EQ(CmaRunNumber::unpacked(run.packed()), run);
    restarts.count(run, took);
    const CmaRunNumber next = restarts.after(run);
    EXPECT_TRUE(next.is_possible());
    EXPECT_EQ(next.large, large <= small);
    EXPECT_EQ(next.doublings, std::min(9, run.doublings + (next.large ? 1 : 0)));
    EXPECT_GT(next.packed(), run.packed());
    run = next;
  }
  EXPECT_GT(run.doublings, 2);
  CmaRestarts doubling(CmaOptions::Restarts::ipop);
  EXPECT_EQ(doubling.after(doubling.after({})), (CmaRunNumber{2, 2, true}));
}

TEST(BoxTransform, RisesSmoothlyAndIsUndone) {
  const double a = box_margin;
  double before = into_box(-a);
  EXPECT_NEAR(before, 0, 1e-15);
  const double h = 1e-4;
  for (double z = -a + h; z < 1 + a; z += h) {
    const double u = into_box(z);
    EXPECT_GT(u, before);
    EXPECT_LE(u, 1);
    EXPECT_NEAR(out_of_box(u), z, 1e-7);
    EXPECT_NEAR(into_box(-2 * a - z), u, 1e-12);           // mirrored at -a
    EXPECT_NEAR(into_box(z + 2 * (1 + 2 * a)), u, 1e-12);  // periodic
    EXPECT_LE((u - before) / h, 1 + 1e-9);
    if (z > a && z < 1 - a) {
      EXPECT_NEAR(u, z, 1e-15);
    }
    before = u;
  }
  EXPECT_NEAR(into_box(1 + a), 1, 1e-15);
  EXPECT_EQ(out_of_box(0), -a);
  EXPECT_EQ(out_of_box(1), 1 + a);
}

}  // namespace cma_distribution_test
}  // namespace tw::search
