// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <vector>

namespace tw::search {

/// Losses warped for a Gaussian process. With the least finite loss b and the median m, t = (y - b) / (m - b) up to 1, and 1 + log t above. The
/// better half keeps its shape, and heavy tails become light. Infinite losses get the largest t. The result has mean 0 and deviation 1. If all are
/// equal or none is finite: zeros.
Eigen::VectorXd warped_losses(const std::vector<double>& losses);

}  // namespace tw::search
