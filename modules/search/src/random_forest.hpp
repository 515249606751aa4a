// SPDX-License-Identifier: Apache-2.0
// The mean of regression trees, each of which has learnt from a sample of its own. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "regression_tree.hpp"

namespace tw::search {

/// Ref: Breiman 2001.
class RandomForest {
 public:
  /// The same from the same samples and seed. @param samples one at least
  RandomForest(const Samples& samples, uint64_t seed);

  double at(const std::vector<double>& position) const;
  const std::vector<RegressionTree>& trees() const noexcept { return trees_; }
  /// How much of the responses' variance it predicts of samples that its trees have not learnt from, each by those that have not: 1 - error /
  /// variance. Below 0: less than their mean does. NaN where all are alike, or too few.
  double explained() const noexcept { return explained_; }

 private:
  std::vector<RegressionTree> trees_;
  double explained_ = 0;
};

}  // namespace tw::search
