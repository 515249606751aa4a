// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <deque>
#include <functional>

namespace tw::search {

/// A function with its gradient. Where it has none it is infinite.
using Differentiable = std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd& gradient)>;

/// On the way to a local minimum of a function in a box, by L-BFGS on the coordinates that may move, with steps projected into the box, and halved
/// until Armijo's condition holds. Ref: Nocedal & Wright 2006, algorithm 7.4; Bertsekas 1982.
class Descent {
 public:
  /// @param start is projected, too. @param iterations at most
  Descent(Eigen::VectorXd start, Eigen::VectorXd low, Eigen::VectorXd high, int iterations);

  /// Goes on until it has ended, or has evaluated `f` so often. @return how often
  int go_on(const Differentiable& f, int evaluations);

  bool has_ended() const noexcept { return ended_; }
  const Eigen::VectorXd& x() const noexcept { return x_; }
  /// Infinite before the first evaluation.
  double value() const noexcept { return value_; }

 private:
  struct Pair {
    Eigen::VectorXd step;
    Eigen::VectorXd change;  // of the gradient
  };

  Eigen::VectorXd free_coordinates() const;
  Eigen::VectorXd direction(Eigen::VectorXd slope, const Eigen::VectorXd& free) const;
  void choose_direction();
  void try_step(const Differentiable& f);

  Eigen::VectorXd x_;
  Eigen::VectorXd low_;
  Eigen::VectorXd high_;
  int iterations_;  // left
  Eigen::VectorXd gradient_ = {};
  double value_;
  std::deque<Pair> pairs_ = {};
  Eigen::VectorXd along_ = {};  // of this iteration; empty: to be chosen
  int halvings_ = 0;            // of the step along it
  bool ended_ = false;
};

/// All of the way.
Descent descended(const Differentiable& f, Eigen::VectorXd start, Eigen::VectorXd low, Eigen::VectorXd high, int iterations);

}  // namespace tw::search
