// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <tw/evolution/individual.hpp>
#include <utility>
#include <vector>

#include "cma_coordinates.hpp"
#include "cma_distribution.hpp"
#include "cma_termination.hpp"

namespace tw::search {

/// One run of CMA-ES between restarts: a distribution, the proposals in flight, and the results since the last update.
class CmaRun {
 public:
  /// @param coordinates kept by reference
  CmaRun(const CmaCoordinates& coordinates, Eigen::VectorXd mean, double sigma, const CmaParameters& parameters, double tol_fun, double tol_x);

  /// @param run number in the tag
  Proposal ask(int32_t run, CounterRng& random);
  /// @return why the run should end; none: it should not
  CmaStop tell(const Individual& individual);

  const CmaDistribution& distribution() const noexcept { return distribution_; }
  /// Number of results received.
  int64_t evaluations() const noexcept { return evaluations_; }

 private:
  struct Sample {
    std::vector<double> values;
    Eigen::VectorXd z;  // position that was decoded to `values`
    Eigen::VectorXd y;  // step from the mean to z
  };
  static constexpr int32_t foreign = -1;
  struct Result {
    Standing standing;
    int32_t version;  // version of the distribution, or `foreign`
    Eigen::VectorXd z;
    Eigen::VectorXd y;  // step with which it was drawn, if drawn here
  };

  Result take(const Individual& individual);
  CmaStop update();
  void stretch_discrete();

  const CmaCoordinates* coordinates_;
  CmaDistribution distribution_;
  CmaTermination termination_;
  std::map<std::pair<int32_t, int32_t>, Sample> in_flight_;  // by version and index
  std::vector<Result> results_;
  int32_t version_ = 0;
  int32_t asked_ = 0;  // proposals of this version
  int64_t evaluations_ = 0;
  // Temporaries of one generation, kept to avoid allocations.
  Eigen::MatrixXd sorted_;  // [n, lambda]
  Eigen::MatrixXd drawn_;   // [n, lambda]
  std::vector<CmaOrigin> origins_;
  std::vector<double> losses_;  // losses or their merits
  std::vector<size_t> order_;
  Eigen::VectorXd least_;
};

}  // namespace tw::search
