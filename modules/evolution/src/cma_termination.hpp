// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <vector>

#include "cma_distribution.hpp"

namespace tw::search {

/// Why a run of CMA-ES cannot improve any more.
enum class CmaStop { none, tol_fun, tol_fun_hist, tol_x, condition, stagnation, no_effect_axis, no_effect_coordinate, generations };

/// Watches a run and decides when it should end. Ref: Hansen 2016, arXiv 1604.00772, B.3; Hansen 2009 for the number of generations and stagnation.
class CmaTermination {
 public:
  /// @param tol_fun losses that differ by less are equal @param tol_x positions that differ by less are equal
  CmaTermination(const CmaParameters& parameters, double tol_fun, double tol_x);

  /// Call after each update. @param losses losses of its samples, sorted, infinite for failed ones; not all infinite
  CmaStop after(const CmaDistribution& distribution, const std::vector<double>& losses);

 private:
  bool stagnates() const;

  double tol_fun_;
  double tol_x_;
  size_t recent_;           // generations of equal losses that end the run: 10 + 30 n / lambda
  size_t watched_;          // generations before stagnation: 120 + 30 n / lambda
  size_t max_generations_;  // 100 + 50 (n + 3)^2 / sqrt(lambda)
  size_t generations_ = 0;
  std::deque<double> best_;  // best losses of the last generations, newest first
  std::deque<double> median_;
};

}  // namespace tw::search
