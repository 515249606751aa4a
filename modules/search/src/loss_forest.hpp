// SPDX-License-Identifier: Apache-2.0
// What trials say about configurations that nobody tried.
#pragma once
#include <optional>
#include <tw/evolution/space.hpp>
#include <tw/search/ledger.hpp>
#include <vector>

#include "functional_anova.hpp"
#include "random_forest.hpp"

namespace tw::search {

/// The unit cube that a forest learns in: each parameter by Space::to_unit(), but choices of categorical ones in the order of the mean of their
/// trials' responses, so that a cut parts those that are good from those that are bad (Fisher 1958). Borrows the space.
class ForestCube {
 public:
  /// @param responses one for each of `trials`
  ForestCube(const Space& space, const std::vector<const LedgerEntry*>& trials, const std::vector<double>& responses);

  /// NaN for NaN: what does not exist.
  double coordinate(size_t parameter, double value) const;
  /// Of all values of a configuration.
  std::vector<double> position(const std::vector<double>& values) const;

 private:
  const Space* space_;
  std::vector<std::vector<double>> places_;  // by parameter, by choice; empty for what is not categorical
};

/// A random forest of where a loss ranks: 0 for the best, 1 for the worst. Ranks, since a loss out of all proportion would have all the variance to
/// itself.
struct LossForest {
  ForestCube cube;
  RandomForest forest;
  VarianceShares shares = {};  ///< by parameter. One that does not exist matters nowhere
  size_t trials = 0;           ///< that it has learnt from
};

/// From 1000 trials at most, drawn by chance, but the same from the same ones. @param ranked those that count, from the best
/// @return nothing with fewer than 20, or where all losses are equal
std::optional<LossForest> loss_forest_of(const std::vector<const LedgerEntry*>& ranked, const Space& space);

}  // namespace tw::search
