// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bounded_step.hpp>
#include <ellipsoid.hpp>
#include <linear_algebra.hpp>
#include <quadratic_model.hpp>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace quadratic_model_test {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_matrix(Index rows, Index columns, CounterRng& random) {
  MatrixXd m(rows, columns);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = normal(random);
  return m;
}

QuadraticModel random_model(Index n, CounterRng& random) {
  const MatrixXd m = random_matrix(n, n, random);
  return {normal(random), random_matrix(n, 1, random), m + m.transpose()};
}

VectorXd losses_at(const QuadraticModel& model, const MatrixXd& points) {
  VectorXd losses(points.cols());
  for (Index i = 0; i < points.cols(); ++i) losses[i] = model.at(points.col(i));
  return losses;
}

// The regularisation of 1e-7 changes coefficients by about its share of the data, which have size 1: by 1e-6.
TEST(QuadraticModel, IsWhatThePointsCameFrom) {
  CounterRng random(1);
  for (const Index n : {1, 2, 5}) {
    const QuadraticModel truth = random_model(n, random);
    const MatrixXd points = random_matrix(n, 2 * QuadraticModel::coefficients(n), random);
    const VectorXd weights = VectorXd::Ones(points.cols());
    const QuadraticModel found = QuadraticModel::fitted(points, losses_at(truth, points), weights);
    EXPECT_NEAR(found.constant, truth.constant, 1e-5);
    EXPECT_LE((found.gradient - truth.gradient).norm(), 1e-5) << n;
    EXPECT_LE((found.hessian - truth.hessian).norm(), 1e-5) << n;
  }
}

// Of two points in one place the heavier one dominates: the mean is (9 * 1 + 1 * 2) / 10.
TEST(QuadraticModel, WeighsSquaresOfResiduals) {
  const MatrixXd points = (MatrixXd(1, 5) << 0, 0, 1, -1, 2).finished();
  const VectorXd losses = (VectorXd(5) << 1, 2, 1.1, 1.1, 1.1).finished();
  const VectorXd weights = (VectorXd(5) << 9, 1, 1e-9, 1e-9, 1e-9).finished();
  EXPECT_NEAR(QuadraticModel::fitted(points, losses, weights).constant, 1.1, 1e-4);
}

// Losses from 0 to 1 with noise of deviation 1/2 have priors of the same deviation: minimise sum r^2 + |H|^2. With H = h I, losses of 0 in the middle
// and 1 around it: 3 c + h = 2 and c + 3 h / 2 = 1 on a line, 5 c + 2 h = 4 and the same second equation in a plane, where there are fewer points
// than coefficients.
TEST(QuadraticModel, BendsLessUnderNoise) {
  const MatrixXd line = (MatrixXd(1, 3) << -1, 0, 1).finished();
  const QuadraticModel on_a_line = QuadraticModel::fitted(line, Eigen::Vector3d(1, 0, 1), VectorXd::Ones(3), 0.5);
  EXPECT_NEAR(on_a_line.constant, 4.0 / 7, 1e-9);
  EXPECT_NEAR(on_a_line.hessian(0, 0), 2.0 / 7, 1e-9);
  const MatrixXd plane = (MatrixXd(2, 5) << -1, 1, 0, 0, 0, 0, 0, 0, -1, 1).finished();
  const QuadraticModel in_a_plane = QuadraticModel::fitted(plane, (VectorXd(5) << 1, 1, 0, 1, 1).finished(), VectorXd::Ones(5), 0.5);
  EXPECT_NEAR(in_a_plane.constant, 8.0 / 11, 1e-9);
  EXPECT_LE((in_a_plane.hessian - 2.0 / 11 * MatrixXd::Identity(2, 2)).norm(), 1e-9);
}

TEST(QuadraticModel, IsFiniteWherePointsLieOnALine) {
  MatrixXd points = MatrixXd::Zero(2, 12);
  for (Index i = 0; i < 12; ++i) points(0, i) = static_cast<double>(i) / 12;
  const VectorXd losses = points.row(0).array().square().matrix().transpose();
  for (const Index count : {4, 12}) {
    const QuadraticModel model = QuadraticModel::fitted(points.leftCols(count), losses.head(count), VectorXd::Ones(count));
    EXPECT_TRUE(model.gradient.allFinite() && model.hessian.allFinite()) << count;
    EXPECT_NEAR(model.hessian(0, 0), 2, 1e-2) << count;
  }
}

// Compared with the equations of Powell 2004 for all coefficients: minimise |H|^2 such that the model interpolates.
TEST(QuadraticModel, IsOfLeastHessianWherePointsAreFew) {
  CounterRng random(2);
  constexpr Index n = 3;
  constexpr Index m = 6;  // there are 10 coefficients
  const MatrixXd points = random_matrix(n, m, random);
  const VectorXd losses = random_matrix(m, 1, random);
  const QuadraticModel found = QuadraticModel::fitted(points, losses, VectorXd::Ones(m));
  EXPECT_LE((losses_at(found, points) - losses).norm(), 1e-4);
  // Unknowns: c, g, and all n^2 elements of H, and multipliers.
  constexpr Index unknowns = 1 + n + n * n;
  MatrixXd system = MatrixXd::Zero(unknowns + m, unknowns + m);
  VectorXd right = VectorXd::Zero(unknowns + m);
  system.block(1 + n, 1 + n, n * n, n * n).setIdentity();
  for (Index i = 0; i < m; ++i) {
    VectorXd row(unknowns);
    const MatrixXd products = points.col(i) * points.col(i).transpose() / 2;
    row << 1, points.col(i), Eigen::Map<const VectorXd>(products.data(), n * n);
    system.row(unknowns + i).head(unknowns) = row.transpose();
    system.col(unknowns + i).head(unknowns) = row;
    right[unknowns + i] = losses[i];
  }
  const VectorXd solution = least_squares(system, right);
  const MatrixXd least = Eigen::Map<const MatrixXd>(solution.data() + 1 + n, n, n);
  EXPECT_LE((found.hessian - least).norm(), 1e-4 * least.norm());
}

TEST(QuadraticModel, IsLeastWhereItSays) {
  CounterRng random(3);
  for (int i = 0; i < 50; ++i) {
    const QuadraticModel model = random_model(3, random);
    const VectorXd least = model.minimizer();
    EXPECT_LE(least.norm(), 1 + 1e-6);
    for (int j = 0; j < 500; ++j) {
      VectorXd other = random_matrix(3, 1, random);
      if (j % 2 == 0 || other.norm() > 1) other.normalize();
      EXPECT_GE(model.at(other), model.at(least) - 1e-6);
    }
  }
}

TEST(QuadraticModel, FallsBothWaysInTheHardCase) {
  const MatrixXd h = (VectorXd(2) << -2, 1).finished().asDiagonal();
  const QuadraticModel model{0, (VectorXd(2) << 0, 0.5).finished(), h};
  const VectorXd least = model.minimizer();
  // y = -0.5 / (1 + 2), and x is free: x^2 + y^2 = 1.
  EXPECT_NEAR(least[1], -0.5 / 3, 1e-4);
  EXPECT_NEAR(std::abs(least[0]), std::sqrt(1 - 0.25 / 9), 1e-4);
}

TEST(Ellipsoid, TakesTheShapeOfLevelLines) {
  CounterRng random(4);
  const MatrixXd q = orthonormal(random_matrix(4, 4, random));
  const MatrixXd h = q * (VectorXd(4) << 1, 10, 1e3, 1e6).finished().asDiagonal() * q.transpose();
  Ellipsoid shape(4);
  MatrixXd seen = h;
  for (int i = 0; i < 40; ++i) {
    const MatrixXd back = shape.follow(seen);
    seen = back * seen * back;
  }
  const VectorXd eigenvalues = eigensystem_of(seen).values;
  EXPECT_LE(eigenvalues[3], 1.01 * eigenvalues[0]);
  const VectorXd x = random_matrix(4, 1, random);
  EXPECT_LE((shape.from(shape.to(x)) - x).norm(), 1e-9 * x.norm());
  EXPECT_NEAR(shape.length(x) * shape.length(x), x.dot(h * x) / std::pow(eigensystem_of(h).values.prod(), 0.25),
              0.02 * shape.length(x) * shape.length(x));
}

TEST(Ellipsoid, LeavesWhatSaysNothing) {
  Ellipsoid shape(2);
  EXPECT_EQ(shape.follow(MatrixXd::Zero(2, 2)), MatrixXd::Identity(2, 2));
  EXPECT_EQ(shape.follow(MatrixXd::Constant(2, 2, NAN)), MatrixXd::Identity(2, 2));
}

TEST(BoundedStep, WhatHitsAFaceStaysThereAndTheOthersGoOn) {
  const QuadraticModel slope{0, Eigen::VectorXd::Constant(3, -1), Eigen::MatrixXd::Zero(3, 3)};
  const Eigen::Vector3d centre(0.95, 0.5, 0.5);
  const Eigen::VectorXd x = bounded_minimizer(slope, centre, 0.4, Ellipsoid(3));
  // The other two coordinates share the rest of the radius equally.
  const double other = 0.5 + std::sqrt((0.4 * 0.4 - 0.05 * 0.05) / 2);
  EXPECT_LT((x - Eigen::Vector3d(1, other, other)).norm(), 1e-9);
  EXPECT_EQ(bounded_minimizer(slope, centre, 2, Ellipsoid(3)), Eigen::VectorXd::Ones(3));
}

TEST(BoundedStep, NoPlaceOfTheBallAndTheCubeIsMuchBetter) {
  CounterRng random(1);
  for (int trial = 0; trial < 20; ++trial) {
    const Eigen::Matrix2d root = Eigen::Matrix2d::NullaryExpr([&] { return normal(random); });
    const QuadraticModel model{0, Eigen::Vector2d::NullaryExpr([&] { return normal(random); }), root * root.transpose()};
    const Eigen::Vector2d centre = Eigen::Vector2d::NullaryExpr([&] { return uniform(random); });
    Ellipsoid ellipsoid(2);
    ellipsoid.follow(Eigen::Vector2d(1, 9).asDiagonal());
    const auto y_of = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd { return ellipsoid.to(x - centre) / 0.5; };
    const Eigen::VectorXd x = bounded_minimizer(model, centre, 0.5, ellipsoid);
    EXPECT_LE(y_of(x).norm(), 1 + 1e-6);
    double least = 0;  // minimum over a grid
    for (int i = 0; i <= 100; ++i) {
      for (int j = 0; j <= 100; ++j) {
        const Eigen::VectorXd y = y_of(Eigen::Vector2d(i / 100.0, j / 100.0));
        if (y.norm() <= 1) least = std::min(least, model.at(y));
      }
    }
    EXPECT_LE(model.at(y_of(x)), least + 0.02 * std::abs(least) + 1e-9) << trial;
  }
}

}  // namespace quadratic_model_test
}  // namespace tw::search
