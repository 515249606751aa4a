// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <deque>
#include <functional>

namespace tw::search {

/// A function with its gradient; infinite where it is undefined.
using Differentiable = std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd& gradient)>;

/// Finds a local minimum of a function in a box, in several calls, by L-BFGS on the free coordinates. Steps are projected into the box, and halved
/// until Armijo's condition holds. Ref: Nocedal & Wright 2006, algorithm 7.4; Bertsekas 1982.
class Descent {
 public:
  /// @param start is projected into the box. @param iterations maximum number
  Descent(const Eigen::VectorXd& start, Eigen::VectorXd low, Eigen::VectorXd high, int iterations);

  /// Continues until the descent ends or `f` has been called `evaluations` times. @return the number of calls
  int go_on(const Differentiable& f, int evaluations);

  bool has_ended() const noexcept { return ended_; }
  const Eigen::VectorXd& x() const noexcept { return x_; }
  /// Infinite before the first evaluation.
  double value() const noexcept { return value_; }

 private:
  struct Pair {
    Eigen::VectorXd step;
    Eigen::VectorXd change;  // change of the gradient
  };

  Eigen::VectorXd free_coordinates() const;
  Eigen::VectorXd direction(Eigen::VectorXd slope, const Eigen::VectorXd& free) const;
  void choose_direction();
  void try_step(const Differentiable& f);

  Eigen::VectorXd x_;
  Eigen::VectorXd low_;
  Eigen::VectorXd high_;
  int iterations_;  // remaining iterations
  Eigen::VectorXd gradient_ = {};
  double value_;
  std::deque<Pair> pairs_ = {};
  Eigen::VectorXd along_ = {};  // direction of this iteration; empty: not chosen yet
  int halvings_ = 0;            // halvings of the step along it
  bool ended_ = false;
};

/// A complete descent.
Descent descended(const Differentiable& f, const Eigen::VectorXd& start, Eigen::VectorXd low, Eigen::VectorXd high, int iterations);

}  // namespace tw::search
