// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "gp_coordinates.hpp"
#include "gp_regression.hpp"

namespace tw::search {

/// Where a model stands in the unit cube: its u = in (x - centre).
struct ModelFrame {
  Eigen::VectorXd centre;
  Eigen::MatrixXd in;
  Eigen::MatrixXd out;  ///< the inverse
  double scale = 1;     ///< what 1 in the frame is in the cube, on average of smooth coordinates

  Eigen::VectorXd inside(const Eigen::VectorXd& x) const { return in * (x - centre); }
  Eigen::VectorXd outside(const Eigen::VectorXd& u) const { return centre + out * u; }
};

struct AcquisitionSearch {
  const GpCoordinates& coordinates;
  const GpRegression& model;
  const ModelFrame& frame;
  Eigen::VectorXd centre;  ///< of the box
  Eigen::VectorXd half;    ///< its half-widths, in the frame
  size_t candidates;
  std::function<bool(const Eigen::VectorXd&)> is_taken;  ///< not to be proposed, say since it is known or in flight
};

struct Promising {
  Eigen::VectorXd position;
  double log_improvement;  ///< that is expected there, in the model's losses
};

/// A position in the box that is not taken, with a great expected improvement on `best`. All were taken: a random one, of no improvement.
Promising most_promising(const AcquisitionSearch& search, double best, CounterRng& random);

}  // namespace tw::search
