// SPDX-License-Identifier: Apache-2.0
// A regression tree over the unit cube. Pure.
#pragma once
#include <cstddef>
#include <tw/base/random.hpp>
#include <vector>

namespace tw::search {

/// Samples for a tree: positions in the unit cube, each [dimensions], and a response for each. NaN: the position lacks this coordinate.
struct Samples {
  std::vector<std::vector<double>> positions = {};
  std::vector<double> responses = {};
};

/// A part of the unit interval.
struct Interval {
  double low = 0;
  double high = 1;

  double length() const noexcept { return high - low; }
};

/// A part of the unit cube in which a tree's value is the same.
struct Leaf {
  std::vector<Interval> box = {};  ///< by dimension
  double volume = 1;
  double value = 0;
};

/// Cuts the cube in two, then each part again, and so on. Each cut is across one dimension, at the place that minimizes the sum of squares around the
/// means of both parts. A part is cut only across dimensions that all of its samples have, so a conditional parameter has an effect only in parts
/// where its condition holds. Ref: Breiman, Friedman, Olshen & Stone 1984.
class RegressionTree {
 public:
  /// @param rows indices of `samples`, at least one; they may repeat. @param random picks the dimensions to try for each cut: five of six, at most 16
  /// (Breiman 2001)
  RegressionTree(const Samples& samples, std::vector<size_t> rows, CounterRng& random);

  /// The mean response of the leaf that `position` lies in.
  double at(const std::vector<double>& position) const;
  /// The leaves, which together fill the cube.
  const std::vector<Leaf>& leaves() const noexcept { return leaves_; }

 private:
  struct Cut {
    size_t dimension = 0;
    double threshold = 0;  ///< smaller coordinates go to `below`
    double gain = 0;       ///< decrease of the sum of squares; 0: there is no cut
  };
  struct Node {
    Cut cut = {};
    int below = -1;  ///< index of a node; -1: there is no cut
    int above = -1;
    size_t leaf = 0;  ///< index of the leaf, if there is no cut
  };

  int grow(const Samples& samples, std::vector<size_t> rows, const Leaf& part, CounterRng& random);
  static Cut best_cut(const Samples& samples, const std::vector<size_t>& rows, CounterRng& random);

  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
};

}  // namespace tw::search
