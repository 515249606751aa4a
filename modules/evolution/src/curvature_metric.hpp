// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

namespace tw::search {

/// A symmetric matrix of determinant 1 which differences of positions are multiplied with, so that a function of this curvature is rounder: with its
/// eigenvalues l_i, no less than a 900th of the largest, those are (l_i / their geometric mean)^(1/4), half of the way to a sphere. The other half is
/// left to lengths, since a curvature that is not known well, and taken for known, hides what is not seen. None of them positive: the identity.
/// @param curvature symmetric, [D, D]. @param mixable 1 for the coordinates that take part, 0 for those left alone, [D]
Eigen::MatrixXd metric_of(const Eigen::MatrixXd& curvature, const Eigen::VectorXd& mixable);

}  // namespace tw::search
