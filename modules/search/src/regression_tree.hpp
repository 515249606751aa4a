// SPDX-License-Identifier: Apache-2.0
// A regression tree over the unit cube. Pure.
#pragma once
#include <cstddef>
#include <tw/base/random.hpp>
#include <vector>

namespace tw::search {

/// What a tree learns from: positions in the unit cube, each [dimensions], and a response for each. NaN: this position has no such coordinate.
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

/// Cuts the cube in two, each part again, and so on: each cut, across one dimension, where it leaves the least sum of squares around the means of
/// both parts. A part is cut only across what all of its samples have: so what exists under a condition matters where the condition has been cut out,
/// and nowhere else. Ref: Breiman, Friedman, Olshen & Stone 1984.
class RegressionTree {
 public:
  /// @param rows of `samples`, one at least; repeated ones count as often. @param random picks the dimensions that are tried for each cut: five of
  /// six, 16 at most (Breiman 2001)
  RegressionTree(const Samples& samples, std::vector<size_t> rows, CounterRng& random);

  /// The mean response of the leaf that `position` lies in.
  double at(const std::vector<double>& position) const;
  /// They fill the cube.
  const std::vector<Leaf>& leaves() const noexcept { return leaves_; }

 private:
  struct Cut {
    size_t dimension = 0;
    double threshold = 0;  ///< what lies below goes to `below`
    double gain = 0;       ///< by how much the sum of squares falls; 0: there is no cut
  };
  struct Node {
    Cut cut = {};
    int below = -1;  ///< nodes
    int above = -1;
    size_t leaf = 0;  ///< without a cut
  };

  int grow(const Samples& samples, std::vector<size_t> rows, const Leaf& part, CounterRng& random);
  static Cut best_cut(const Samples& samples, const std::vector<size_t>& rows, CounterRng& random);

  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
};

}  // namespace tw::search
