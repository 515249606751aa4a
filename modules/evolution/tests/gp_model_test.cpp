// SPDX-License-Identifier: Apache-2.0
// The components of GaussianProcess.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <tw/evolution/draws.hpp>

#include "curvature_metric.hpp"
#include "descent.hpp"
#include "gp_coordinates.hpp"
#include "gp_fit.hpp"
#include "gp_losses.hpp"
#include "gp_regression.hpp"
#include "improvement.hpp"
#include "linear_algebra.hpp"
#include "matern.hpp"
#include "trust_region.hpp"

namespace tw::search {
namespace gp_model_test {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Columns are points in a cube around the origin.
MatrixXd random_positions(Index dimensions, Index n, uint64_t seed) {
  CounterRng random(seed);
  MatrixXd positions(dimensions, n);
  for (double& x : positions.reshaped()) x = uniform(random, -0.5, 0.5);
  return positions;
}

VectorXd random_losses(Index n, uint64_t seed) {
  CounterRng random(seed, 1);
  VectorXd losses(n);
  for (double& y : losses) y = normal(random);
  return losses;
}

/// Three coordinates, of which the last two share a length.
const std::vector<Index> group{0, 1, 1};

GpParameters parameters(double first, double second, double amplitude, double quadratic, double noise) {
  VectorXd logs = VectorXd::Zero(5);
  logs << std::log(first), std::log(second), std::log(amplitude), std::log(quadratic), std::log(noise);
  return {std::move(logs)};
}
const GpParameters usual = parameters(0.7, 0.4, 1.3, 0.2, 0.01);

/// The covariance, directly from its formula.
double covariance(const VectorXd& u, const VectorXd& v, const GpParameters& p) {
  double squared = 0;
  for (Index d = 0; d < u.size(); ++d) squared += std::pow((u[d] - v[d]) * std::exp(-p.logs[group[static_cast<size_t>(d)]]), 2);
  const double s = std::sqrt(5 * squared);
  return p.amplitude() * (1 + s + s * s / 3) * std::exp(-s) + p.quadratic() * std::pow(1 + 4 * u.dot(v), 2);
}

struct Dense {
  MatrixXd inverse;
  VectorXd losses;
  MatrixXd positions;
  double determinant;
};

Dense dense(const MatrixXd& x, const VectorXd& y, const GpParameters& p) {
  MatrixXd k(x.cols(), x.cols());
  for (Index i = 0; i < x.cols(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) k(i, j) = covariance(x.col(i), x.col(j), p) + (i == j ? p.noise() : 0);
  }
  return {inverse_of(k), y, x, eigensystem_of(k).values.prod()};
}

GpRegression::Prediction dense_prediction(const Dense& model, const VectorXd& u, const GpParameters& p) {
  VectorXd k(model.positions.cols());
  for (Index i = 0; i < k.size(); ++i) k[i] = covariance(model.positions.col(i), u, p);
  return {k.dot(model.inverse * model.losses), covariance(u, u, p) - k.dot(model.inverse * k)};
}

TEST(GpModel, MaternIsTheClosedForm) {
  EXPECT_DOUBLE_EQ(matern52(0), 1);
  // r = 1: (1 + sqrt 5 + 5 / 3) exp(-sqrt 5).
  EXPECT_NEAR(matern52(1), 0.52399410883182031, 1e-15);
  EXPECT_NEAR(matern52(0.25), 0.82864914, 1e-8);
  const double h = 1e-5;
  for (const double squared : {0.1, 1.0, 4.0}) {
    EXPECT_NEAR(matern52_slope(squared), -2 * (matern52(squared + h) - matern52(squared - h)) / (2 * h), 1e-9) << squared;
    Eigen::ArrayXXd value;
    Eigen::ArrayXXd slope;
    matern52(Eigen::ArrayXXd::Constant(1, 3, squared), value, &slope);
    EXPECT_NEAR(value(0, 2), matern52(squared), 1e-14);
    EXPECT_NEAR(slope(0, 2), matern52_slope(squared), 1e-14);
  }
}

TEST(GpModel, OneTrialByHand) {
  // At the origin k = a + q, noise 0.01: a loss y = 2 there makes the mean 2 (a + q) / (a + q + noise).
  const GpRegression model(MatrixXd::Zero(3, 1), VectorXd::Constant(1, 2), usual, group);
  const auto at = model.at(VectorXd::Zero(3));
  EXPECT_NEAR(at.mean, 2 * 1.5 / 1.51, 1e-14);
  EXPECT_NEAR(at.variance, 1.5 - 1.5 * 1.5 / 1.51, 1e-14);
  EXPECT_NEAR(model.log_likelihood(), -4 / 1.51 / 2 - std::log(1.51) / 2 - std::log(2 * std::numbers::pi) / 2, 1e-14);
}

TEST(GpModel, PosteriorAndLikelihoodAreThoseOfTheDenseFormulas) {
  const MatrixXd x = random_positions(3, 12, 1);
  const VectorXd y = random_losses(12, 1);
  const GpRegression model(x, y, usual, group);
  const Dense expected = dense(x, y, usual);
  ASSERT_TRUE(model.is_valid());
  const double likelihood = -y.dot(expected.inverse * y) / 2 - std::log(expected.determinant) / 2 - 6 * std::log(2 * std::numbers::pi);
  EXPECT_NEAR(model.log_likelihood(), likelihood, 1e-10);
  const MatrixXd places = random_positions(3, 5, 2);
  VectorXd means;
  VectorXd variances;
  model.at(places, means, variances);
  for (Index i = 0; i < 5; ++i) {
    const auto here = dense_prediction(expected, places.col(i), usual);
    EXPECT_NEAR(means[i], here.mean, 1e-10);
    EXPECT_NEAR(variances[i], here.variance, 1e-10);
    EXPECT_NEAR(model.at(places.col(i)).mean, here.mean, 1e-10);
  }
}

TEST(GpModel, SlopesAreDifferences) {
  const MatrixXd x = random_positions(3, 12, 3);
  const VectorXd y = random_losses(12, 3);
  const GpRegression model(x, y, usual, group);
  VectorXd gradient;
  model.log_likelihood(&gradient);
  const double h = 1e-5;  // error: rounding 1e-13 / 1e-5, and 1e-10 times the third derivative
  for (Index i = 0; i < 5; ++i) {
    GpParameters up = usual;
    GpParameters down = usual;
    up.logs[i] += h;
    down.logs[i] -= h;
    const double difference = GpRegression(x, y, up, group).log_likelihood() - GpRegression(x, y, down, group).log_likelihood();
    EXPECT_NEAR(gradient[i], difference / (2 * h), 1e-6) << i;
  }
  VectorXd mean_slope;
  VectorXd variance_slope;
  const VectorXd place = random_positions(3, 1, 4);
  const auto at = model.at(place, mean_slope, variance_slope);
  EXPECT_NEAR(at.mean, model.at(place).mean, 1e-12);
  EXPECT_NEAR(at.variance, model.at(place).variance, 1e-12);
  for (Index d = 0; d < 3; ++d) {
    const VectorXd step = h * VectorXd::Unit(3, d);
    const auto up = model.at(place + step);
    const auto down = model.at(place - step);
    EXPECT_NEAR(mean_slope[d], (up.mean - down.mean) / (2 * h), 1e-6);
    EXPECT_NEAR(variance_slope[d], (up.variance - down.variance) / (2 * h), 1e-6);
  }
}

TEST(GpModel, WhatIsBelievedLowersVariancesAsATrialWouldAndKeepsMeans) {
  const MatrixXd x = random_positions(3, 9, 5);
  const VectorXd y = random_losses(9, 5);
  const MatrixXd believed = random_positions(3, 2, 6);
  GpRegression model(x, y, usual, group);
  MatrixXd all(3, 11);
  all << x, believed;
  VectorXd losses(11);
  losses << y, model.at(believed.col(0)).mean, model.at(believed.col(1)).mean;
  for (Index i = 0; i < 2; ++i) model.believe(believed.col(i));
  const GpRegression expected(all, losses, usual, group);
  EXPECT_EQ(model.size(), 11);
  EXPECT_NEAR(model.log_likelihood(), expected.log_likelihood(), 1e-10);
  for (const Index i : {0, 1, 2}) {
    const VectorXd place = random_positions(3, 1, 7 + static_cast<uint64_t>(i));
    EXPECT_NEAR(model.at(place).mean, expected.at(place).mean, 1e-10);
    EXPECT_NEAR(model.at(place).variance, expected.at(place).variance, 1e-10);
  }
}

TEST(GpModel, PriorsSlopeIsADifferenceAndItsModeThatOfTheLogNormal) {
  VectorXd gradient = VectorXd::Zero(5);
  log_prior(usual, 3, gradient);
  const double h = 1e-5;
  for (Index i = 0; i < 5; ++i) {
    VectorXd unused = VectorXd::Zero(5);
    GpParameters up = usual;
    GpParameters down = usual;
    up.logs[i] += h;
    down.logs[i] -= h;
    EXPECT_NEAR(gradient[i], (log_prior(up, 3, unused) - log_prior(down, 3, unused)) / (2 * h), 1e-8);
  }
  // The mode, exp(mean - variance).
  gradient.setZero();
  const double mode = std::exp(std::numbers::sqrt2 - 3) * std::sqrt(3);
  log_prior(parameters(mode, mode, 1, 0.1, 1e-5), 3, gradient);
  EXPECT_LT(gradient.cwiseAbs().maxCoeff(), 1e-12);
}

TEST(GpModel, AFitFindsWhichCoordinateMatters) {
  // The loss oscillates in the first coordinate and ignores the second one.
  const MatrixXd x = random_positions(2, 40, 8);
  VectorXd y = (8 * x.row(0).array()).sin().transpose();
  y.array() -= y.mean();
  y /= std::sqrt(y.squaredNorm() / 40);
  const GpParameters found = fitted(x, y, {0, 1}, {first_parameters(2, 2, 1e-4), first_parameters(2, 2, 0.3)}, 50);
  EXPECT_GT(found.logs[1], found.logs[0] + std::log(10));
  EXPECT_LT(found.noise(), 1e-4);
  const GpRegression model(x, y, found, {0, 1});
  VectorXd gradient;
  model.log_likelihood(&gradient);
  log_prior(found, 2, gradient);
  EXPECT_LT(std::abs(gradient[0]), 0.1);  // a maximum
  VectorXd noisy = y + random_losses(40, 9);
  noisy.array() -= noisy.mean();
  noisy /= std::sqrt(noisy.squaredNorm() / 40);
  const double noise = fitted(x, noisy, {0, 1}, {first_parameters(2, 2, 1e-4), first_parameters(2, 2, 0.3)}, 50).noise();
  EXPECT_GT(noise, 0.15);  // half of the variance
  EXPECT_LT(noise, 0.9);
}

TEST(GpModel, ImprovementIsItsIntegral) {
  for (const auto& [mean, deviation, best] : {std::tuple{0.0, 1.0, 0.5}, {1.0, 0.5, 0.0}, {-2.0, 0.1, 0.3}, {3.0, 1.0, 0.0}, {4.5, 1.0, 0.0}}) {
    double sum = 0;  // Simpson's rule over 12 deviations below `best` or `mean`
    const double high = best;
    const double low = std::min(best, mean) - 12 * deviation;
    constexpr int intervals = 200000;
    const double h = (high - low) / intervals;
    for (int i = 0; i <= intervals; ++i) {
      const double y = low + i * h;
      const double z = (y - mean) / deviation;
      const double value = (best - y) * std::exp(-z * z / 2) / (deviation * std::sqrt(2 * std::numbers::pi));
      sum += value * (i == 0 || i == intervals ? 1 : i % 2 == 1 ? 4 : 2);
    }
    EXPECT_NEAR(log_expected_improvement(mean, deviation, best).value, std::log(sum * h / 3), 1e-9) << mean;
  }
}

TEST(GpModel, ImprovementIsFiniteAndItsSlopesAreDifferencesEverywhere) {
  for (const double mean : {-30.0, -1.0, 0.0, 3.9, 3.999999, 4.000001, 5.0, 20.0, 1e3, 1e6}) {
    const auto at = log_expected_improvement(mean, 1.1, 0.1);
    ASSERT_TRUE(std::isfinite(at.value)) << mean;
    const double h = 1e-5 * std::max(1.0, std::abs(mean));
    const double size = std::max(1.0, std::abs(at.value));
    EXPECT_NEAR(at.by_mean, (log_expected_improvement(mean + h, 1.1, 0.1).value - log_expected_improvement(mean - h, 1.1, 0.1).value) / (2 * h),
                1e-8 * size + 1e-9 / h)
        << mean;
    const double by = 1e-6;
    const double change = log_expected_improvement(mean, 1.1 + by, 0.1).value - log_expected_improvement(mean, 1.1 - by, 0.1).value;
    EXPECT_NEAR(at.by_deviation, change / (2 * by), 1e-6 * size) << mean;
  }
  // h(z) ~ pdf(z) / z^2 for z -> -infinity.
  EXPECT_NEAR(log_expected_improvement(100, 1, 0).value, -5000 - std::log(2 * std::numbers::pi) / 2 - 2 * std::log(100), 1e-3);
}

TEST(GpModel, LossesAreWarpedByTheMedian) {
  const VectorXd warped = warped_losses({1, 2, 3, 4, 1e9});
  // t = 0, 1/2, 1, 1 + log 1.5, 1 + log(5e8 - ...), scaled to mean 0 and deviation 1.
  EXPECT_NEAR(warped.mean(), 0, 1e-15);
  EXPECT_NEAR(warped.squaredNorm() / 5, 1, 1e-14);
  EXPECT_NEAR((warped[1] - warped[0]) / (warped[2] - warped[0]), 0.5, 1e-14);
  EXPECT_NEAR((warped[3] - warped[0]) / (warped[2] - warped[0]), 1 + std::log(1.5), 1e-14);
  EXPECT_NEAR((warped[4] - warped[0]) / (warped[2] - warped[0]), 1 + std::log((1e9 - 1) / 2), 1e-12);
  const double none = std::numeric_limits<double>::infinity();
  const VectorXd with_failures = warped_losses({5, none, 1, 3});
  EXPECT_EQ(with_failures[1], with_failures[0]);
  EXPECT_GT(with_failures[1], with_failures[3]);
  EXPECT_EQ(warped_losses({7, 7, none, 7}), VectorXd::Zero(4));
  EXPECT_EQ(warped_losses({none, none}), VectorXd::Zero(2));
  EXPECT_TRUE(warped_losses({-1.7e308, 1.7e308, 0}).allFinite());
}

TEST(GpModel, DescentFindsMinimaInsideAndOnFaces) {
  const Differentiable rosenbrock = [](const VectorXd& x, VectorXd& gradient) {
    const double valley = x[1] - x[0] * x[0];
    gradient.resize(2);
    gradient << -400 * valley * x[0] - 2 * (1 - x[0]), 200 * valley;
    return 100 * valley * valley + (1 - x[0]) * (1 - x[0]);
  };
  const VectorXd start = VectorXd::Constant(2, -1.0);
  const Descent inside = descended(rosenbrock, start, VectorXd::Constant(2, -2), VectorXd::Constant(2, 2), 200);
  EXPECT_LT((inside.x() - VectorXd::Ones(2)).norm(), 1e-4);
  // With x at most 0.5 the minimum is at (0.5, 0.25), where the value is 0.25.
  VectorXd high(2);
  high << 0.5, 2;
  const Descent face = descended(rosenbrock, start, VectorXd::Constant(2, -2), high, 200);
  EXPECT_EQ(face.x()[0], 0.5);
  EXPECT_NEAR(face.x()[1], 0.25, 1e-5);
  EXPECT_NEAR(face.value(), 0.25, 1e-8);
}

TEST(GpModel, DescentGoesOnWhereItWas) {
  int evaluations = 0;
  const Differentiable valley = [&](const VectorXd& x, VectorXd& gradient) {
    ++evaluations;
    gradient.resize(2);
    gradient << 2 * x[0] + 4 * std::pow(x[0], 3), 20 * x[1];
    return x[0] * x[0] + std::pow(x[0], 4) + 10 * x[1] * x[1];
  };
  const VectorXd start = VectorXd::Constant(2, 0.7);
  const VectorXd low = VectorXd::Constant(2, -1);
  const Descent whole = descended(valley, start, low, -low, 15);
  const int in_all = std::exchange(evaluations, 0);
  Descent parts(start, low, -low, 15);
  int calls = 0;
  for (int counted = 0; !parts.has_ended(); ++calls) {
    counted += parts.go_on(valley, 2);
    ASSERT_EQ(counted, evaluations);
  }
  EXPECT_GE(calls, 5);
  EXPECT_EQ(evaluations, in_all);
  EXPECT_EQ(parts.x(), whole.x());
  EXPECT_EQ(parts.value(), whole.value());
}

TEST(GpModel, TheMetricGoesHalfWayToASphere) {
  const VectorXd all = VectorXd::Ones(2);
  MatrixXd curvature = MatrixXd::Zero(2, 2);
  curvature.diagonal() << 100, 1;
  MatrixXd expected = MatrixXd::Zero(2, 2);
  expected.diagonal() << std::pow(10, 0.25), std::pow(10, -0.25);
  EXPECT_LT((metric_of(curvature, all) - expected).norm(), 1e-12);
  const Eigen::Matrix2d turn{{0.6, -0.8}, {0.8, 0.6}};
  EXPECT_LT((metric_of(turn * curvature * turn.transpose(), all) - turn * expected * turn.transpose()).norm(), 1e-12);
  curvature.diagonal() << 1e8, -1;
  expected.diagonal() << std::pow(30, 0.25), std::pow(30, -0.25);
  EXPECT_LT((metric_of(curvature, all) - expected).norm(), 1e-12);
  EXPECT_EQ(metric_of(-MatrixXd::Identity(2, 2), all), MatrixXd::Identity(2, 2));
  EXPECT_EQ(metric_of(curvature, VectorXd::Zero(2)), MatrixXd::Identity(2, 2));
  const MatrixXd alone = metric_of(curvature, VectorXd::Unit(2, 0));
  EXPECT_LT((alone - MatrixXd::Identity(2, 2)).norm(), 1e-12);
}

TEST(GpModel, TheTrustRegionDoublesAndHalves) {
  TrustRegion region(6);
  for (int i = 0; i < 5; ++i) region.count(false, 1);
  EXPECT_EQ(region.side(), TrustRegion::whole);
  region.count(false, 1);
  EXPECT_EQ(region.side(), 1);
  for (int i = 0; i < 3; ++i) region.count(true, 1);
  EXPECT_EQ(region.side(), 2);
  for (int i = 0; i < 3; ++i) region.count(true, 1);
  EXPECT_EQ(region.side(), 2);  // at most everything
  EXPECT_EQ(region.version(), 2);
  for (int i = 0; i < 15; ++i) region.count(false, 16);
  EXPECT_EQ(region.side(), 2);  // trials in flight count as one decision
  region.count(false, 16);
  EXPECT_EQ(region.side(), 1);
}

TEST(GpModel, CoordinatesKnowWhatIsSmoothAndWhatIsNear) {
  const Space space{real("x", 0, 1), categorical("kind", {"a", "b", "c"}), integer("few", 1, 3), real("only", 0, 1).when("kind", {"b"})};
  const GpCoordinates coordinates(space);
  ASSERT_EQ(coordinates.size(), 6);
  EXPECT_EQ(coordinates.group(), (std::vector<Index>{0, 1, 1, 1, 2, 3}));
  for (Index d = 0; d < 6; ++d) EXPECT_EQ(coordinates.is_smooth(d), d == 0 || d == 5) << d;
  const VectorXd at = coordinates.position_of({0.5, 0, 1, std::numeric_limits<double>::quiet_NaN()});
  // Two other kinds and two other numbers.
  EXPECT_EQ(coordinates.exchanges(at).size(), 4U);
  for (const VectorXd& other : coordinates.exchanges(at)) EXPECT_NE(other, at);
  CounterRng random(1);
  bool far = false;
  for (int i = 0; i < 200; ++i) {
    VectorXd shift = VectorXd::Zero(6);
    shift[0] = uniform(random, -0.01, 0.01);
    const VectorXd near = coordinates.random_near(at, shift, 1, random);
    EXPECT_EQ(near, coordinates.snapped(near));
    EXPECT_NEAR(near[0], 0.5 + shift[0], 1e-15);
    far = far || std::abs(near[5] - 0.5) > 0.3;  // parameters that did not exist may get any value
  }
  EXPECT_TRUE(far);
}

}  // namespace gp_model_test
}  // namespace tw::search
