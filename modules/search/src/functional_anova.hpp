// SPDX-License-Identifier: Apache-2.0
// The shares of a forest's variance over the unit cube that single coordinates explain, and that pairs explain in addition. Pure.
#pragma once
#include <cstddef>
#include <vector>

#include "random_forest.hpp"

namespace tw::search {

/// The mean of a forest over all coordinates except one or two, exact at the centres of the cells of a grid.
/// Ref: Hutter, Hoos & Leyton-Brown 2014, algorithm 1.
class Marginal {
 public:
  static constexpr size_t cells = 60;  ///< cells along a coordinate; 2, 3, 4, 5, 6, 10 or 12 choices get equal numbers of them

  Marginal(const RandomForest& forest, size_t dimension);
  Marginal(const RandomForest& forest, size_t first, size_t second);

  /// The mean in the cell that contains the point. @param y ignored if there is one coordinate
  double at(double x, double y = 0) const;
  /// The variance over the grid.
  double variance() const;

 private:
  struct Cells {
    size_t begin = 0;
    size_t end = 0;
  };

  static Cells cells_in(const Interval& interval);
  void add(const Cells& xs, const Cells& ys, double amount);
  void sum_up();

  size_t columns_;              // cells along y
  std::vector<double> values_;  // [cells, columns]
};

/// The share of the variance that two coordinates explain together, beyond each alone.
struct PairShare {
  size_t first = 0;
  size_t second = 0;
  double share = 0;
};

struct VarianceShares {
  std::vector<double> alone = {};     ///< by dimension
  std::vector<PairShare> pairs = {};  ///< pairs of the 32 dimensions that are cut most, largest share first; shares are at least 0
};

/// Decomposes the variance of a forest f. Let a_U be its mean over all coordinates except those in U, V_i = var a_i for each coordinate, and
/// V_ij = var a_ij - V_i - V_j for each pair. The shares are V_i / V and V_ij / V, with V = var f at 4096 points. Coordinates are treated as uniform
/// and independent. The remainder is explained by three or more coordinates together.
///
/// The mean of the trees is decomposed rather than each tree, because trees fit noise differently, and their mean has less of it.
/// @return empty if the forest is constant
/// Ref: Hutter, Hoos & Leyton-Brown 2014, algorithm 2, which decomposes each tree; Sobol 1993.
VarianceShares functional_anova(const RandomForest& forest);

}  // namespace tw::search
