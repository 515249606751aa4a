// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bounded_step.hpp>
#include <cmath>
#include <ellipsoid.hpp>
#include <polynomial.hpp>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace polynomial_test {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_points(Index dimensions, Index count, CounterRng& random) {
  return MatrixXd::NullaryExpr(dimensions, count, [&] { return uniform(random, -1, 1); });
}

MatrixXd by_distance(MatrixXd points) {
  std::vector<VectorXd> columns;
  for (const auto& column : points.colwise()) columns.emplace_back(column);
  std::ranges::sort(columns, {}, [](const VectorXd& column) { return column.norm(); });
  for (Index i = 0; i < points.cols(); ++i) points.col(i) = columns[static_cast<size_t>(i)];
  return points;
}

double rosenbrock(const VectorXd& y) {
  double sum = 0;
  for (Index i = 0; i + 1 < y.size(); ++i) sum += 100 * std::pow(y[i + 1] - y[i] * y[i], 2) + std::pow(1 - y[i], 2);
  return sum;
}

template <typename Loss>
VectorXd losses_at(const MatrixXd& points, Loss loss) {
  VectorXd losses(points.cols());
  for (Index i = 0; i < points.cols(); ++i) losses[i] = loss(points.col(i));
  return losses;
}

TEST(Polynomial, CountsItsCoefficients) {
  EXPECT_EQ(Polynomial::coefficients(2, 3), 10);
  EXPECT_EQ(Polynomial::coefficients(2, 4), 15);
  EXPECT_EQ(Polynomial::coefficients(3, 4), 35);
  EXPECT_EQ(Polynomial::coefficients(1, 4), 5);
}

// The regularisation of 1e-9 moves losses by some 1e-7 of their range, which is 400, and slopes and curvatures by ten times as much each.
TEST(Polynomial, IsWhatThePointsCameFrom) {
  CounterRng random(1);
  const MatrixXd points = random_points(2, 22, random);
  const Polynomial found = Polynomial::fitted(points, losses_at(points, rosenbrock), 4, 5).polynomial;
  const Eigen::Vector2d y(0.3, -0.7);
  EXPECT_NEAR(found.at(y), rosenbrock(y), 1e-4);
  const QuadraticModel here = found.around(y);
  EXPECT_NEAR(here.constant, rosenbrock(y), 1e-4);
  EXPECT_LE((here.gradient - Eigen::Vector2d(-400 * y[0] * (y[1] - y[0] * y[0]) - 2 * (1 - y[0]), 200 * (y[1] - y[0] * y[0]))).norm(), 1e-3);
  const Eigen::Matrix2d hessian{{-400 * (y[1] - 3 * y[0] * y[0]) + 2, -400 * y[0]}, {-400 * y[0], 200}};
  EXPECT_LE((here.hessian - hessian).norm(), 1e-2);
}

// By fits without the point. What is left out neither scales points nor losses: the least, the greatest and the farthest come last.
TEST(Polynomial, ErrorIsOfPointsThatAreLeftOut) {
  CounterRng random(2);
  constexpr Index judged = 4;
  const MatrixXd points = by_distance(random_points(2, 16, random));
  VectorXd losses = losses_at(points, [&](const VectorXd& y) { return std::exp(y[0]) * std::cos(3 * y[1]); });
  losses[14] = -4;
  losses[15] = 4;
  double logs = 0;
  for (Index i = 0; i < judged; ++i) {
    MatrixXd others(2, 15);
    others << points.leftCols(i), points.rightCols(15 - i);
    VectorXd of_others(15);
    of_others << losses.head(i), losses.tail(15 - i);
    logs += std::log(std::abs(Polynomial::fitted(others, of_others, 3, 1).polynomial.at(points.col(i)) - losses[i]));
  }
  const double error = Polynomial::fitted(points, losses, 3, judged).error;
  EXPECT_NEAR(error, std::exp(logs / judged), 1e-6 * error);
}

MatrixXd about_the_origin(Index dimensions, CounterRng& random) {
  MatrixXd points = random_points(dimensions, points_for_polynomials(dimensions), random);
  points.col(0).setZero();
  return by_distance(points);
}

TEST(Polynomial, IsTakenWhereItIsReliable) {
  CounterRng random(3);
  for (const Index dimensions : {1, 2, 3, 4}) {
    const MatrixXd points = about_the_origin(dimensions, random);
    const auto cubic = [](const VectorXd& y) { return y.squaredNorm() + std::pow(y[0], 3); };
    const auto found = reliable_polynomial(points, losses_at(points, cubic));
    ASSERT_TRUE(found) << dimensions;
    const VectorXd y = VectorXd::Constant(dimensions, 0.3);
    EXPECT_NEAR(found->at(y), cubic(y), 1e-5);
    EXPECT_FALSE(reliable_polynomial(points, losses_at(points, [&](const VectorXd&) { return normal(random); })));
    EXPECT_FALSE(reliable_polynomial(points, VectorXd::Constant(points.cols(), 3)));
    const Index few = 3 * QuadraticModel::coefficients(dimensions) / 2 - 1;
    EXPECT_FALSE(reliable_polynomial(points.leftCols(few), losses_at(points.leftCols(few), cubic)));
  }
  EXPECT_EQ(points_for_polynomials(5), 0);
  EXPECT_FALSE(reliable_polynomial(MatrixXd(5, 0), VectorXd(0)));
}

// Where others fit noise a little better by chance, they would go astray beyond the points.
TEST(Polynomial, IsAQuadraticUnlessAnotherIsFarBetter) {
  CounterRng random(5);
  const MatrixXd points = about_the_origin(2, random);
  const auto noisy = [&](const VectorXd& y) { return y.squaredNorm() + 0.001 * normal(random); };
  const auto found = reliable_polynomial(points, losses_at(points, noisy));
  ASSERT_TRUE(found);
  const Eigen::Vector2d y(4, 4);
  EXPECT_NEAR((found->at(2 * y) - found->at(y)) / (found->at(y) - found->at(y / 2)), 4, 0.5) << "as squares do";
}

// All but a tenth of what is gained at the least place of a grid, of the ball and the cube: the steps are few. What only falls is stopped by
// the ball.
TEST(BoundedStep, GoesDownAValleyThatBends) {
  CounterRng random(4);
  const MatrixXd points = 2 * random_points(2, 40, random);
  Ellipsoid ellipsoid(2);
  ellipsoid.follow(Eigen::Vector2d(1, 9).asDiagonal());
  const auto expect_least = [&](const Polynomial& polynomial, const Eigen::Vector2d& centre, double radius) {
    const auto y_of = [&](const VectorXd& x) { return VectorXd(ellipsoid.to(x - centre) / radius); };
    const VectorXd x = bounded_minimizer(polynomial, centre, radius, ellipsoid, centre);
    EXPECT_LE(y_of(x).norm(), polynomial.reach() * (1 + 1e-9));
    EXPECT_TRUE((x.array() >= 0 && x.array() <= 1).all());
    double least = INFINITY;
    for (int i = 0; i <= 200; ++i) {
      for (int j = 0; j <= 200; ++j) {
        const VectorXd y = y_of(Eigen::Vector2d(i / 200.0, j / 200.0));
        if (y.norm() <= polynomial.reach()) least = std::min(least, polynomial.at(y));
      }
    }
    EXPECT_LE(polynomial.at(y_of(x)) - least, 0.1 * (polynomial.at(VectorXd::Zero(2)) - least)) << radius << " about " << centre.transpose();
  };
  const auto slope = [](const VectorXd& y) { return y[0] * y[0] * y[0] - 9 * y[0]; };
  for (const auto& losses : {losses_at(points, rosenbrock), losses_at(points, slope)}) {
    const Polynomial polynomial = Polynomial::fitted(points, losses, 4, 1).polynomial;
    for (const double radius : {0.1, 0.4}) {
      for (const auto& centre : {Eigen::Vector2d(0.4, 0.4), Eigen::Vector2d(0.8, 0.7), Eigen::Vector2d(0.05, 0.9)}) {
        expect_least(polynomial, centre, radius);
      }
    }
  }
}

// Of wells near y = -2 and 0 the first is deeper.
TEST(BoundedStep, TakesTheBetterOfTwoWells) {
  CounterRng random(6);
  const MatrixXd points = 3 * random_points(1, 20, random);
  const auto wells = [](const VectorXd& y) { return std::pow(y[0] * (y[0] + 2), 2) + 0.2 * y[0]; };
  const Polynomial polynomial = Polynomial::fitted(points, losses_at(points, wells), 4, 1).polynomial;
  const VectorXd centre = VectorXd::Constant(1, 0.5);
  constexpr double radius = 0.1;
  const VectorXd guess = VectorXd::Constant(1, 0.5 - 1.8 * radius);
  EXPECT_NEAR(bounded_minimizer(polynomial, centre, radius, Ellipsoid(1), guess)[0], 0.5 - 2 * radius, 0.01);
}

}  // namespace polynomial_test
}  // namespace tw::search
