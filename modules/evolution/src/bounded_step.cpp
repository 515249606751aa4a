// SPDX-License-Identifier: Apache-2.0
#include "bounded_step.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "linear_algebra.hpp"

namespace tw::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd bounded_minimizer(const QuadraticModel& model, const VectorXd& centre, double radius, const Ellipsoid& ellipsoid) {
  const Index n = centre.size();
  VectorXd x = centre + radius * ellipsoid.from(model.minimizer());
  VectorXd fixed = centre;  // coordinates at a face, and the centre's for the others
  std::vector<bool> is_fixed(static_cast<size_t>(n), false);
  for (Index rounds = 0; rounds < n && x.allFinite(); ++rounds) {
    // The coordinate that leaves the cube by most.
    Index leaves = -1;
    double most = 0;
    for (Index d = 0; d < n; ++d) {
      const double out = std::max(-x[d], x[d] - 1);
      if (is_fixed[static_cast<size_t>(d)] || out <= most) continue;
      most = out;
      leaves = d;
    }
    if (leaves < 0) break;
    is_fixed[static_cast<size_t>(leaves)] = true;
    fixed[leaves] = x[leaves] < 0 ? 0 : 1;
    std::vector<Index> open;
    for (Index d = 0; d < n; ++d) {
      if (!is_fixed[static_cast<size_t>(d)]) open.push_back(d);
    }
    if (open.empty()) return fixed;
    // y = y0 + Q w, where Q has orthonormal columns and y0 is orthogonal to them.
    MatrixXd columns = MatrixXd::Zero(n, static_cast<Index>(open.size()));
    for (size_t k = 0; k < open.size(); ++k) columns.col(static_cast<Index>(k)) = ellipsoid.to(VectorXd::Unit(n, open[k]));
    const MatrixXd q = orthonormal(columns);
    VectorXd y0 = ellipsoid.to(fixed - centre) / radius;
    y0 -= q * (q.transpose() * y0);
    const double rest = 1 - y0.squaredNorm();
    if (!(rest > 0)) break;
    const double ball = std::sqrt(rest);
    const QuadraticModel within{0, ball * q.transpose() * (model.gradient + model.hessian * y0), rest * q.transpose() * model.hessian * q};
    x = centre + radius * ellipsoid.from(y0 + ball * q * within.minimizer());
  }
  return x.cwiseMax(0).cwiseMin(1);
}

}  // namespace tw::search
