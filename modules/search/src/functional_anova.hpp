// SPDX-License-Identifier: Apache-2.0
// How much of a forest's variance over the unit cube each coordinate accounts for by itself, and each pair beyond that. Pure.
#pragma once
#include <cstddef>
#include <vector>

#include "random_forest.hpp"

namespace tw::search {

/// A forest's mean over all coordinates but one or two, in the middles of a grid's cells; there it is exact.
/// Ref: Hutter, Hoos & Leyton-Brown 2014, algorithm 1.
class Marginal {
 public:
  static constexpr size_t cells = 60;  ///< along a coordinate; 2, 3, 4, 5, 6, 10 and 12 values have equal numbers of them

  Marginal(const RandomForest& forest, size_t dimension);
  Marginal(const RandomForest& forest, size_t first, size_t second);

  /// In the cell that holds the point. @param y nothing where there is one coordinate
  double at(double x, double y = 0) const;
  /// Over its grid.
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

/// What two coordinates do together, beyond what each does.
struct PairShare {
  size_t first = 0;
  size_t second = 0;
  double share = 0;
};

struct VarianceShares {
  std::vector<double> alone = {};     ///< by dimension
  std::vector<PairShare> pairs = {};  ///< from the largest share, which is at least 0; of the 32 dimensions that are cut most
};

/// Where f is the forest, and a_U its mean over all coordinates but those in U, V_i = var a_i for each coordinate, and V_ij = var a_ij - V_i - V_j
/// for each pair; shares are V_i / V and V_ij / V, with V = var f at 4096 points. All coordinates count as uniform and independent. What three or
/// more do together is the rest.
///
/// It is the mean of the trees that is decomposed, and not each tree: what trees make of noise, each something else, has less of a part so.
/// @return empty where the forest is constant
/// Ref: Hutter, Hoos & Leyton-Brown 2014, algorithm 2, which decomposes each tree; Sobol 1993.
VarianceShares functional_anova(const RandomForest& forest);

}  // namespace tw::search
