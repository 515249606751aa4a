// SPDX-License-Identifier: Apache-2.0
// The mean of regression trees, each of which has learnt from its own random sample. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "regression_tree.hpp"

namespace tw::search {

/// Ref: Breiman 2001.
class RandomForest {
 public:
  /// Deterministic for the same samples and seed. @param samples at least one
  RandomForest(const Samples& samples, uint64_t seed);

  double at(const std::vector<double>& position) const;
  const std::vector<RegressionTree>& trees() const noexcept { return trees_; }
  /// The out-of-bag coefficient of determination, 1 - error / variance: each sample is predicted by the trees that have not learnt from it. Negative
  /// if the mean response predicts better. NaN if all responses are equal, or there are too few.
  double explained() const noexcept { return explained_; }

 private:
  std::vector<RegressionTree> trees_;
  double explained_ = 0;
};

}  // namespace tw::search
