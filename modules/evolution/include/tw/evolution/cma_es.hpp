// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>
#include <vector>

namespace tw::search {

struct CmaOptions {
  /// What happens when a run has converged. none: sampling continues from its last distribution. ipop: a new run starts with doubled lambda (Auger &
  /// Hansen 2005). bipop: as ipop, but runs of small lambda and sigma come in between (Hansen 2009).
  enum class Restarts { none, ipop, bipop };

  double sigma = 0.25;  ///< initial standard deviation, as a share of each parameter's range
  size_t lambda = 0;    ///< samples per generation of the first run; 0: 4 + floor(3 * ln(n)) for n dimensions
  bool active = true;   ///< also learn from bad samples, by negative weights
  Restarts restarts = Restarts::bipop;
  std::vector<double> start = {};  ///< the first run's initial mean, as values of the space; empty: drawn from the seed, as in all later runs
  double tol_fun = 1e-12;          ///< a run ends when the best losses of many generations in a row differ by less than this
  double tol_x = 1e-12;            ///< a run ends when standard deviations fall below this share of the ranges

  /// @throws ContractError naming the option that is wrong for `space`, or if `space` has more than 2,000 dimensions
  void validate(const Space& space) const;
};
void visit(CmaOptions& options, OptionVisitor& visitor);

/// Covariance matrix adaptation (CMA-ES): samples a normal distribution over the positions of a space (see Space::dimensions()), and moves and shapes
/// the distribution by the ranks of the samples' losses. Ref: Hansen 2016, arXiv 1604.00772.
///
/// The distribution is updated after every lambda results of the current run, whichever worker and version of the distribution they come from. ask()
/// may be called any number of times in between. Results of older versions and of other workers are used as injected solutions, with steps of limited
/// length (Hansen 2011). With many proposals in flight, a search needs 1.3 to 2 times the evaluations of a sequential one; if the loss has many
/// minima, set lambda to the number in flight. If one worker alternately asks for lambda proposals and reports all of their results, this is the
/// algorithm as published. Trials with a known violation rank after all feasible ones. Other infeasible trials and failed ones rank last; a
/// generation that contains nothing else changes nothing.
///
/// Tags: run, the number of the run, which grows with each restart; generation, the version of the distribution; index, the number of the sample.
/// Workers with the same space, options and seed start the same runs from the same points. A worker that receives an individual of a later run joins
/// that run. Other islands have their own runs: their individuals are used only if they have the number of the current run.
///
/// Bounds are handled by a smooth map (see src/box_transform.hpp). Parameters with finitely many values keep a minimum deviation, so that each of the
/// n coordinates still changes its value in about one of lambda * n samples (after Hamano et al. 2022).
///
/// Costs O(n^2) per proposal and result on average, and O(n^3) for an eigendecomposition every max(1, 1 / (10 * n * (c_1 + c_mu))) generations, with
/// the learning rates c_1 and c_mu of Hansen 2016. Memory: O(n^2 + n * lambda), for any number of results.
class CmaEs final : public Propagator {
 public:
  /// @param space copied. @throws ContractError as validate() does
  CmaEs(const Space& space, CmaOptions options, uint64_t seed);
  ~CmaEs() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  /// The state of the current run, for reports.
  struct State {
    int restarts;
    size_t lambda;      ///< samples per generation in this run
    size_t generation;  ///< updates in this run
    double sigma;
    double deviation;  ///< the largest standard deviation of a coordinate, as a share of its range; at most 1
    double condition;  ///< condition number of the covariance
    bool ended;        ///< whether the run is over and restarts are off
  };
  State state() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tw::search
