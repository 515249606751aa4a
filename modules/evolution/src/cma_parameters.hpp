// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cstddef>

namespace tw::search {

/// Weights and rates of CMA-ES for n dimensions. Ref: Hansen 2016, arXiv 1604.00772, table 1.
struct CmaParameters {
  size_t dimensions;
  size_t lambda;
  size_t mu;                ///< number of samples with positive weight: floor(lambda / 2)
  Eigen::VectorXd weights;  ///< [lambda], by rank; the first mu add up to 1, the others are negative, or 0 if not active
  double mu_eff;            ///< (sum w)^2 / sum w^2 over the first mu
  double c_sigma, d_sigma;  ///< rate and damping of the step size
  double c_c, c_1, c_mu;    ///< rates of the path, the rank-one update and the rank-mu update
  double expected_norm;     ///< expected norm of a standard normal vector
  size_t eigen_every;       ///< generations between eigendecompositions: max(1, 1 / (10 n (c_1 + c_mu)))

  /// @param active use negative weights. @param lambda at least 2
  CmaParameters(size_t dimensions, size_t lambda, bool active);
};

/// 4 + floor(3 ln n)
size_t default_lambda(size_t dimensions);

}  // namespace tw::search
