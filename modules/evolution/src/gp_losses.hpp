// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <vector>

namespace tw::search {

/// Losses as a Gaussian process likes them: with b the least and m the median of the finite ones, t = (y - b) / (m - b) where that is at most 1, and
/// 1 + log t above, so that the good half keeps its shape and heavy tails become light; what is infinite gets the largest t there is. Then of mean 0
/// and deviation 1. All equal, or none finite: zeros.
Eigen::VectorXd warped_losses(const std::vector<double>& losses);

}  // namespace tw::search
