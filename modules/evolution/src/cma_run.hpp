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

/// From one start of CMA-ES to the next: a distribution, the proposals in flight, and the results since the last update.
class CmaRun {
 public:
  /// @param coordinates borrowed
  CmaRun(const CmaCoordinates& coordinates, Eigen::VectorXd mean, double sigma, const CmaParameters& parameters, double tol_fun, double tol_x);

  /// @param run for the tag
  Proposal ask(int32_t run, CounterRng& random);
  /// @return why the run should end, if it should
  CmaStop tell(const Individual& individual);

  const CmaDistribution& distribution() const noexcept { return distribution_; }
  /// Results that it was told.
  int64_t evaluations() const noexcept { return evaluations_; }

 private:
  struct Sample {
    std::vector<double> values;
    Eigen::VectorXd z;  // that gave them
    Eigen::VectorXd y;  // the step to it
  };
  static constexpr int32_t foreign = -1;
  struct Result {
    Standing standing;
    int32_t version;  // of the distribution; foreign: of none of ours
    Eigen::VectorXd z;
    Eigen::VectorXd y;  // with which it was drawn, if it was
  };

  Result take(const Individual& individual);
  CmaStop update();
  void stretch_discrete();

  const CmaCoordinates* coordinates_;
  CmaDistribution distribution_;
  CmaTermination termination_;
  std::map<std::pair<int32_t, int32_t>, Sample> in_flight_;  // by version and number
  std::vector<Result> results_;
  int32_t version_ = 0;
  int32_t asked_ = 0;  // of this version
  int64_t evaluations_ = 0;
  // Of one generation; kept for their memory.
  Eigen::MatrixXd sorted_;  // [n, lambda]
  Eigen::MatrixXd drawn_;   // [n, lambda]
  std::vector<CmaOrigin> origins_;
  std::vector<double> losses_;  // or what stands for them
  std::vector<size_t> order_;
  Eigen::VectorXd least_;
};

}  // namespace tw::search
