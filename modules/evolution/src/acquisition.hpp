// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "gp_coordinates.hpp"
#include "gp_regression.hpp"

namespace tw::search {

/// The model's coordinates in the unit cube: u = in (x - centre).
struct ModelFrame {
  Eigen::VectorXd centre;
  Eigen::MatrixXd in;
  Eigen::MatrixXd out;  ///< the inverse
  double scale = 1;     ///< length in the cube of one unit in the frame, averaged over smooth coordinates

  Eigen::VectorXd inside(const Eigen::VectorXd& x) const { return in * (x - centre); }
  Eigen::VectorXd outside(const Eigen::VectorXd& u) const { return centre + out * u; }
};

struct AcquisitionSearch {
  const GpCoordinates& coordinates;
  const GpRegression& model;
  const ModelFrame& frame;
  Eigen::VectorXd centre;  ///< centre of the box
  Eigen::VectorXd half;    ///< half-widths of the box, in the frame
  size_t candidates;
  std::function<bool(const Eigen::VectorXd&)> is_taken;  ///< whether a position must not be proposed, for example because it is known or in flight
};

struct Promising {
  Eigen::VectorXd position;
  double log_improvement;  ///< logarithm of the expected improvement, in the model's losses
};

/// A position in the box with a large expected improvement over `best`. If is_taken() excludes all: a random position with no improvement.
Promising most_promising(const AcquisitionSearch& search, double best, CounterRng& random);

}  // namespace tw::search
