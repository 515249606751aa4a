// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ellipsoid.hpp"
#include "quadratic_model.hpp"

namespace tw::search {

/// Where `model`, of y = A (x - centre) / radius with the ellipsoid's A, is least in |y| <= 1 and in the unit cube of x: what would leave the cube is
/// put at its face, a coordinate at a time, and the others are found anew (an active set, of which nothing is let go). Not finite where the model is
/// not.
Eigen::VectorXd bounded_minimizer(const QuadraticModel& model, const Eigen::VectorXd& centre, double radius, const Ellipsoid& ellipsoid);

}  // namespace tw::search
