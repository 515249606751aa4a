// SPDX-License-Identifier: Apache-2.0
// Predicts losses of configurations that were not tried.
#pragma once
#include <optional>
#include <tw/evolution/space.hpp>
#include <tw/search/ledger.hpp>
#include <vector>

#include "functional_anova.hpp"
#include "random_forest.hpp"

namespace tw::search {

/// The unit cube in which a forest learns. Parameters are mapped by Space::to_unit(), except that the choices of a categorical one are sorted by the
/// mean response of their trials, so that a cut separates good choices from bad ones (Fisher 1958). Borrows the space.
class ForestCube {
 public:
  /// @param responses one for each of `trials`
  ForestCube(const Space& space, const std::vector<const LedgerEntry*>& trials, const std::vector<double>& responses);

  /// The coordinate of a value; NaN for NaN, a parameter that does not exist.
  double coordinate(size_t parameter, double value) const;
  /// The coordinates of all values of a configuration.
  std::vector<double> position(const std::vector<double>& values) const;

 private:
  const Space* space_;
  std::vector<std::vector<double>> places_;  // by parameter, by choice; empty for what is not categorical
};

/// A random forest that predicts the rank of a loss, from 0 for the best to 1 for the worst. Ranks are used because a single huge loss would cause
/// almost all of the variance.
struct LossForest {
  ForestCube cube;
  RandomForest forest;
  VarianceShares shares = {};  ///< by parameter; where a parameter does not exist, it explains nothing
  size_t trials = 0;           ///< number of trials that it has learnt from
};

/// Learns from at most 1000 trials, which are drawn at random, but the same for the same trials. @param ranked trials that count, best first
/// @return none with fewer than 20 trials, or if all losses are equal
std::optional<LossForest> loss_forest_of(const std::vector<const LedgerEntry*>& ranked, const Space& space);

}  // namespace tw::search
