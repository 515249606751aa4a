// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cmath>
#include <vector>

namespace tw::search {

/// The covariance of losses at u and v, for D coordinates that share G lengths:
///   k(u, v) = amplitude matern52(sum_d ((u_d - v_d) / length_{group of d})^2) + quadratic (1 + 4 u.v)^2,
/// plus `noise` for a loss with itself. The second part is the prior of a quadratic function around the origin with independent normal coefficients
/// (Rasmussen & Williams 2006, section 4.2.2). Near a minimum it predicts better than the Matern part.
struct GpParameters {
  Eigen::VectorXd logs;  ///< logarithms of the lengths, [G], then of amplitude, quadratic and noise

  Eigen::Index groups() const noexcept { return logs.size() - 3; }
  double amplitude() const { return std::exp(logs[groups()]); }
  double quadratic() const { return std::exp(logs[groups() + 1]); }
  double noise() const { return std::exp(logs[groups() + 2]); }
};

/// Regression of standardized losses by a Gaussian process of mean 0. Positions are columns.
class GpRegression {
 public:
  /// @param positions [D, n]. @param losses [n]. @param group by coordinate, [D], 0 to G - 1. Cost: O(n^3 + n^2 D)
  GpRegression(Eigen::MatrixXd positions, Eigen::VectorXd losses, GpParameters parameters, std::vector<Eigen::Index> group);

  /// Whether the covariance has a Cholesky factor. If not, no other member may be called.
  bool is_valid() const noexcept { return valid_; }
  Eigen::Index size() const noexcept { return positions_.cols(); }
  const Eigen::MatrixXd& positions() const noexcept { return positions_; }

  /// -y' K^-1 y / 2 - log |K| / 2 - n log(2 pi) / 2. @param gradient by the logs of the parameters; null: not needed. Cost: O(n^2), with gradient
  /// O(n^3). Ref: Rasmussen & Williams 2006, equations 5.8 and 5.9.
  double log_likelihood(Eigen::VectorXd* gradient = nullptr) const;

  struct Prediction {
    double mean;
    double variance;  ///< without noise; at least 0
  };
  /// Cost: O(n^2 + n D)
  Prediction at(const Eigen::VectorXd& position) const;
  /// Prediction with its derivatives by the position, [D].
  Prediction at(const Eigen::VectorXd& position, Eigen::VectorXd& mean_slope, Eigen::VectorXd& variance_slope) const;
  /// Predictions at all columns. @param means,variances [columns]
  void at(const Eigen::MatrixXd& columns, Eigen::VectorXd& means, Eigen::VectorXd& variances) const;

  /// Adds an observation at `position` that equals the predicted mean: means stay the same, variances decrease. Cost: O(n^2). Ref: the kriging
  /// believer of Ginsbourger, Le Riche & Carraro 2010.
  void believe(const Eigen::VectorXd& position);

 private:
  Eigen::ArrayXXd squared_distances(const Eigen::MatrixXd& scaled) const;
  Eigen::MatrixXd covariances(const Eigen::MatrixXd& columns, Eigen::ArrayXXd* slopes) const;
  double own_covariance(const Eigen::VectorXd& position) const;

  Eigen::MatrixXd positions_;  // [D, n]
  Eigen::VectorXd losses_;
  GpParameters parameters_;
  std::vector<Eigen::Index> group_;
  Eigen::VectorXd inverse_lengths_;  // [D]
  Eigen::MatrixXd scaled_;           // positions divided by lengths
  Eigen::MatrixXd factor_;           // lower Cholesky factor L, K = L L'
  Eigen::VectorXd weights_;          // K^-1 y
  bool valid_ = false;
};

}  // namespace tw::search
