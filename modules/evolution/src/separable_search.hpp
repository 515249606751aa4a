// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/evolution/population.hpp>
#include <tw/evolution/sampling.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

#include "interval_search.hpp"

namespace tw::search {

/// Minimizes a loss that is a sum of functions of one parameter each, f(x) = f(b) + sum_i g_i(x_i), however many minima these have: each by itself,
/// which takes D times what one takes. Whether it is such a sum it finds out first, by 2 D + 1 evaluations.
///
/// a. b is the best individual that there is at first, and each g_i is evaluated at both ends of the parameter's scale.
/// b. Where all parameters are at the better of their ends, the loss tells whether it is the sum that is foretold, within a millionth of what they
///    change. If it is not, nothing more comes from here. Ref: additive separability, of two parameters at a time, in Omidvar, Li, Mei & Yao 2014,
///    "Cooperative co-evolution with differential grouping for large scale optimization".
/// c. If it is, parameters are moved in turn (see IntervalSearch), the others staying where theirs are least.
///
/// What is known in all parameters but one tells about that one, whoever proposed it, so that those who search together help each other. Parameters
/// that do not exist in b stay as they are. Noise refutes a sum. Cost of ask(): O(n log n + D) with n places of a parameter; of tell(): O(D log n).
class SeparableSearch {
 public:
  /// @param space borrowed. @param share which of those that search together this is: they begin with different parameters
  SeparableSearch(const Space& space, Share share) : space_(space), share_(share), turn_(static_cast<size_t>(share.first)) {}

  /// What to evaluate next. None: the loss is no such sum, all is known as well as numbers can tell, or nothing is known yet.
  std::optional<std::vector<double>> ask(const Population& population);
  void tell(const Individual& individual);

 private:
  enum class Sum { untested, holds, refuted };

  void begin(const Individual& best);
  /// Each parameter at the better of its ends. None: not all of these are known, or fewer than two can move.
  std::optional<std::vector<double>> test() const;
  /// Each parameter where it is least.
  std::vector<double> least() const;
  double place_of(size_t parameter, const std::vector<double>& values) const { return space_.to_unit(parameter, values[parameter]); }
  void move(std::vector<double>& values, size_t parameter, double place) const;

  const Space& space_;
  Share share_;
  size_t turn_;
  std::vector<double> base_;
  double base_loss_ = 0;
  std::vector<std::optional<IntervalSearch>> lines_;  // g_i, of what exists in the base
  Sum sum_ = Sum::untested;
  std::vector<double> test_;   // once it has been proposed
  std::vector<double> least_;  // the last one that has, or was told
};

}  // namespace tw::search
