// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>
#include <vector>

namespace tw::search {

struct CmaOptions {
  /// What follows when a run has nothing to gain any more: nothing, so that its last distribution goes on being sampled; runs of ever doubled lambda
  /// (Auger & Hansen 2005); or such ones and ones of small lambda and sigma in turn (Hansen 2009).
  enum class Restarts { none, ipop, bipop };

  double sigma = 0.25;  ///< first deviation, as a share of each parameter's range
  size_t lambda = 0;    ///< samples of a generation; 0: 4 + floor(3 ln n)
  bool active = true;   ///< learn from bad samples, too, by negative weights
  Restarts restarts = Restarts::bipop;
  std::vector<double> start = {};  ///< values of the space as the first run's mean; empty: drawn from the seed, as in all later runs
  double tol_fun = 1e-12;          ///< a run ends when losses differ by less for many generations
  double tol_x = 1e-12;            ///< or deviations fall below this share of the ranges

  /// @throws ContractError naming the option that is wrong for `space`, or if that has more than 2,000 dimensions
  void validate(const Space& space) const;
};
void visit(CmaOptions& options, OptionVisitor& visitor);

/// Covariance matrix adaptation: samples a normal distribution over the positions of a space, and moves and shapes it by the ranks of their losses.
/// Ref: Hansen 2016, arXiv 1604.00772.
///
/// An update follows each lambda results of the current run, from whatever version of the distribution and whichever worker they come; ask() may be
/// called any number of times in between. Proposals of older versions and of others are used as injected solutions, of limited length (Hansen 2011).
/// With many in flight it needs 1.3 to 2 times the evaluations; a lambda equal to the number in flight helps where there are many minima.
/// If one worker asks for lambda proposals and reports them, this is the algorithm as published. Failed and infeasible trials rank last; a generation
/// of these alone changes nothing.
///
/// A proposal's tag is {run, version, number of the sample}; run distinguishes restarts: later ones have larger numbers. Workers with one space, one
/// set of options and one seed start the same runs from the same points; one that receives an individual of a later run joins it. Of individuals of
/// other islands, which have other runs, only those are used whose run has the same number.
///
/// Bounds are handled by a smooth map (see box_transform.hpp). Parameters with a number of values keep a least deviation with which each coordinate
/// still changes its value in one of lambda n samples (after Hamano et al. 2022).
///
/// Costs O(n^2) per proposal and result on average, and O(n^3) for an eigendecomposition every max(1, 1 / (10 n (c_1 + c_mu))) generations. Holds
/// O(n^2 + n lambda), for any number of results.
class CmaEs final : public Propagator {
 public:
  /// @param space borrowed. @throws ContractError as validate()
  CmaEs(const Space& space, CmaOptions options, uint64_t seed);
  ~CmaEs() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  /// Where it stands, for reports.
  struct State {
    int restarts;
    size_t lambda;      ///< of the run
    size_t generation;  ///< updates in the run
    double sigma;
    double deviation;  ///< the largest of a coordinate, as a share of its range; at most 1
    double condition;  ///< of the covariance
    bool ended;        ///< there are no restarts, and the run is over
  };
  State state() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tw::search
