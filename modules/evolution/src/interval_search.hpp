// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tw::search {

/// Minimizes a function g on [0, 1] that may have many minima. Both ends come first. Then, of all intervals between known places u < v, that one is
/// split for which a parabola through its ends need bend least to come below the least value m of all,
///
///   (sqrt(g(u) - m) + sqrt(g(v) - m)) / (v - u)  least,
///
/// in the middle; or, every other time that it adjoins the least place, at the vertex of the parabola through that and its neighbours.
/// Ref: Swarzberg, Seront & Bersini 1994, "S.T.E.P.: the easiest way to optimize a function"; Posik & Baudis 2015, "Dimension selection in
/// axis-parallel Brent-STEP method for black-box optimization of separable continuous functions".
class IntervalSearch {
 public:
  /// @param nearest the place that there is to any number within [0, 1]
  explicit IntervalSearch(std::function<double(double)> nearest) : nearest_(std::move(nearest)) {}

  /// A place that is neither known nor in flight. @param rank of the interval that is split, 0 the best one. @return none: 500 are known,
  /// nothing is left that numbers can tell, but for what is in flight, or nothing is known
  std::optional<double> next(size_t rank = 0);
  void know(double place, double value);

  bool knows_ends() const { return known_.contains(nearest_(0)) && known_.contains(nearest_(1)); }
  /// None: not known.
  std::optional<double> value_at(double place) const;
  /// Where the value is least. Something must be known.
  double least_place() const { return least_; }
  /// The same of all other places with a finite value. None: there is none.
  std::optional<double> least_place_but(double excluded) const;

 private:
  using Points = std::map<double, double>;

  bool is_new(double place) const { return !known_.contains(place) && !in_flight_.contains(place); }
  double begin(double place) { return *in_flight_.insert(place).first; }
  /// The left ends of all intervals that can be split, best first.
  std::vector<Points::const_iterator> by_difficulty() const;
  std::optional<double> vertex() const;

  std::function<double(double)> nearest_;
  Points known_;      // values by place
  double least_ = 0;  // its place
  double lowest_ = std::numeric_limits<double>::infinity();
  double highest_ = -std::numeric_limits<double>::infinity();  // of finite values
  std::set<double> in_flight_;
  bool halves_ = false;
};

}  // namespace tw::search
