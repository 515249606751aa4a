// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ellipsoid.hpp"
#include "quadratic_model.hpp"

namespace tw::search {

/// The minimum of `model` in |y| <= 1 and in the unit cube of x, where y = A (x - centre) / radius with the ellipsoid's A. An active-set method that
/// never releases a constraint: coordinates that would leave the cube are fixed at its face one at a time, and the others are solved again. Not
/// finite if the model is not.
Eigen::VectorXd bounded_minimizer(const QuadraticModel& model, const Eigen::VectorXd& centre, double radius, const Ellipsoid& ellipsoid);

}  // namespace tw::search
