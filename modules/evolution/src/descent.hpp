// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <functional>

namespace tw::search {

/// A function with its gradient. Where it has none it is infinite.
using Differentiable = std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd& gradient)>;

struct Descent {
  Eigen::VectorXd x;
  double value;
};

/// A local minimum of `f` in a box from `start`, by L-BFGS on the coordinates that may move, with steps projected into the box, and halved until
/// Armijo's condition holds. Ref: Nocedal & Wright 2006, algorithm 7.4; Bertsekas 1982.
/// @param start is projected, too. @param iterations at most
Descent descend(const Differentiable& f, Eigen::VectorXd start, const Eigen::VectorXd& low, const Eigen::VectorXd& high, int iterations);

}  // namespace tw::search
