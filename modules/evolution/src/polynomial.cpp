// SPDX-License-Identifier: Apache-2.0
#include "polynomial.hpp"

#include <algorithm>
#include <cmath>

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXi;
using Eigen::VectorXd;
using Eigen::VectorXi;

constexpr double least_scale = 1e-300;
constexpr double regularisation = 1e-9;  // of squares of factors beyond the slope's, beside squares of residuals of losses scaled to 1
constexpr double least_freedom = 1e-6;   // of a point: 1 less its leverage
constexpr int highest_degree = 4;
constexpr Index most_dimensions = 4;
constexpr Index most_coefficients = 35;  // of the third degree in four dimensions, of the fourth in three
constexpr double better = 1.0 / 8;       // error, for a higher degree to be taken
constexpr double reliable = 0.1;         // error, as a share of what separates losses

/// Of all products of at most `degree` factors, by column; of none first.
MatrixXi all_powers(Index dimensions, int degree) {
  MatrixXi all(dimensions, Polynomial::coefficients(dimensions, degree));
  VectorXi powers = VectorXi::Zero(dimensions);
  for (Index k = 0; k < all.cols(); ++k) {
    all.col(k) = powers;
    for (Index d = 0; d < dimensions; ++d) {  // counts up, with carries
      ++powers[d];
      if (powers.sum() <= degree) break;
      powers[d] = 0;
    }
  }
  return all;
}

double product(const VectorXd& y, const VectorXi& powers) {
  double value = 1;
  for (Index d = 0; d < y.size(); ++d) {
    for (int i = 0; i < powers[d]; ++i) value *= y[d];
  }
  return value;
}

Index points_for(Index coefficients) { return 3 * coefficients / 2; }

}  // namespace

Index Polynomial::coefficients(Index dimensions, int degree) {
  Index count = 1;
  for (int k = 1; k <= degree; ++k) count = count * (dimensions + k) / k;
  return count;
}

Polynomial::Fit Polynomial::fitted(const MatrixXd& points, const VectorXd& losses, int degree, Index judged) {
  Fit fit;
  Polynomial& polynomial = fit.polynomial;
  polynomial.reach_ = std::max(points.colwise().norm().maxCoeff(), least_scale);
  polynomial.powers_ = all_powers(points.rows(), degree);
  const Index m = points.cols();
  const Index n = polynomial.powers_.cols();
  const double offset = losses.minCoeff();
  const double scale = std::max((losses.array() - offset).maxCoeff(), least_scale);
  MatrixXd rows = MatrixXd::Zero(m + n, n);
  for (Index i = 0; i < m; ++i) rows.row(i) = polynomial.products(points.col(i)).transpose();
  for (Index k = 0; k < n; ++k) rows(m + k, k) = polynomial.powers_.col(k).sum() > 1 ? std::sqrt(regularisation) : 0;
  VectorXd right = VectorXd::Zero(m + n);
  right.head(m) = (losses.array() - offset) / scale;
  const Eigen::ColPivHouseholderQR<MatrixXd> qr(rows);
  const VectorXd solution = qr.solve(right);
  // The residual of a point that is left out is larger by 1 / (1 - leverage).
  const MatrixXd q = qr.householderQ() * MatrixXd::Identity(m + n, n);
  const Eigen::ArrayXd freedom = (1 - q.topRows(judged).rowwise().squaredNorm().array()).max(least_freedom);
  const Eigen::ArrayXd errors = (right - rows * solution).head(judged).array().abs() / freedom;
  fit.error = scale * std::exp(errors.max(least_scale).log().mean());
  polynomial.factors_ = scale * solution;
  polynomial.factors_[0] += offset;
  return fit;
}

VectorXd Polynomial::products(const VectorXd& y) const {
  VectorXd all(powers_.cols());
  for (Index k = 0; k < all.size(); ++k) all[k] = product(y / reach_, powers_.col(k));
  return all;
}

double Polynomial::at(const VectorXd& y) const { return factors_.dot(products(y)); }

QuadraticModel Polynomial::around(const VectorXd& y) const {
  const Index n = y.size();
  QuadraticModel model{at(y), VectorXd::Zero(n), MatrixXd::Zero(n, n)};
  for (Index k = 0; k < powers_.cols(); ++k) {
    VectorXi powers = powers_.col(k);
    for (Index i = 0; i < n; ++i) {
      const double first = factors_[k] * powers[i] / reach_;
      if (first == 0) continue;
      --powers[i];
      model.gradient[i] += first * product(y / reach_, powers);
      for (Index j = 0; j < n; ++j) {
        const double second = first * powers[j] / reach_;
        if (second == 0) continue;
        --powers[j];
        model.hessian(i, j) += second * product(y / reach_, powers);
        ++powers[j];
      }
      ++powers[i];
    }
  }
  return model;
}

std::optional<Polynomial> reliable_polynomial(const MatrixXd& points, const VectorXd& losses) {
  const Index judged = points_for(QuadraticModel::coefficients(points.rows()));
  if (points.rows() > most_dimensions || points.cols() < judged || losses.minCoeff() == losses.maxCoeff()) return std::nullopt;
  const Eigen::ArrayXd differences = (losses.segment(1, judged - 1).array() - losses[0]).abs();
  double least = reliable * std::exp(differences.max(least_scale).log().mean());
  std::optional<Polynomial> chosen;
  for (int degree = 2; degree <= highest_degree; ++degree) {
    const Index coefficients = Polynomial::coefficients(points.rows(), degree);
    const Index m = points_for(coefficients);
    if (coefficients > most_coefficients || m > points.cols()) break;
    Polynomial::Fit fit = Polynomial::fitted(points.leftCols(m), losses.head(m), degree, judged);
    if (fit.error < least) chosen = std::move(fit.polynomial);
    least = std::min(least, degree == 2 ? better * fit.error : fit.error);
  }
  return chosen;
}

Index points_for_polynomials(Index dimensions) { return dimensions > most_dimensions ? 0 : points_for(most_coefficients); }

}  // namespace tw::search
