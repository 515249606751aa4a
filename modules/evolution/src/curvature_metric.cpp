// SPDX-License-Identifier: Apache-2.0
#include "curvature_metric.hpp"

#include <vector>

#include "linear_algebra.hpp"

namespace tw::search {
namespace {

constexpr double max_conditioned = 900;     // largest condition of the eigenvalues
constexpr double curvature_exponent = 0.5;  // 0: no change, 1: a sphere; on BBOB 0.3 to 0.5 perform alike, 1 is worse

}  // namespace

Eigen::MatrixXd metric_of(const Eigen::MatrixXd& curvature, const Eigen::VectorXd& mixable) {
  Eigen::MatrixXd metric = Eigen::MatrixXd::Identity(mixable.size(), mixable.size());
  std::vector<Eigen::Index> mixed;
  for (Eigen::Index d = 0; d < mixable.size(); ++d) {
    if (mixable[d] == 1) mixed.push_back(d);
  }
  if (mixed.empty()) return metric;
  const Eigensystem system = eigensystem_of(curvature(mixed, mixed));
  const double largest = system.values.maxCoeff();
  if (!(largest > 0)) return metric;
  Eigen::ArrayXd logs = system.values.cwiseMax(largest / max_conditioned).array().log();
  logs -= logs.mean();
  const Eigen::VectorXd factors = (curvature_exponent * logs / 2).exp();
  metric(mixed, mixed) = matrix_of(system.vectors, factors);
  return metric;
}

}  // namespace tw::search
