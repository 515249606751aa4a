// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

namespace tw::search {

/// A symmetric matrix of determinant 1 by which differences of positions are multiplied, so that a function of this curvature becomes rounder. Its
/// eigenvalues are (l_i / geometric mean of l)^(1/4), where l_i are those of the curvature, raised to at least a 900th of the largest. This goes
/// halfway to a sphere. The length parameters cover the other half, because a wrong curvature that is trusted fully hides unseen regions. If no
/// eigenvalue is positive: the identity.
/// @param curvature symmetric, [D, D]. @param mixable 1 for coordinates that may be mixed, 0 for the others, [D]
Eigen::MatrixXd metric_of(const Eigen::MatrixXd& curvature, const Eigen::VectorXd& mixable);

}  // namespace tw::search
