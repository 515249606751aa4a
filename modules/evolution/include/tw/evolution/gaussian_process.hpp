// SPDX-License-Identifier: Apache-2.0
// Search with a Gaussian process as the model of the loss.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

struct GaussianProcessOptions {
  size_t initial = 0;       ///< trials that cover the space before the first model and after each restart; 0: 2 per parameter, at least 4
  size_t trials = 0;        ///< maximum number of trials in the model, those nearest to the best one; 0: 50 + 10 per parameter, at most 300
  size_t candidates = 0;    ///< candidates per proposal, of which the best few are improved by gradients; 0: 100 + 10 per parameter, at most 400
  double collapsed = 1e-6;  ///< side of the trust region, as a share of the ranges, below which a new region is started

  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(GaussianProcessOptions& options, OptionVisitor& visitor);

/// Bayesian optimization: maximises the expected improvement on a Gaussian process within a trust region. D is Space::dimensions().
///
/// a. The first trials cover the space (Sobol).
/// b. The model: losses, warped to have light tails, are a function of the position in Space::encode() with covariance
///      k(u, v) = a * (1 + s + s^2 / 3) * exp(-s) + q * (1 + 4 * u.v)^2 + noise * [u = v],   s^2 = 5 * sum_d ((u_d - v_d) / length_d)^2.
///    The model contains the trials that are nearest to the best one. All choices of a categorical parameter share a length. Parameters that do not
///    exist have a fixed position, so that they add no distance between configurations that both lack them. Trials with a known violation rank
///    after all feasible ones; other infeasible trials and failed ones get the worst loss.
///    Ref: Rasmussen & Williams 2006.
/// c. The lengths, a, q and noise maximise the posterior density. The prior of a length is log-normal(sqrt(2) + log(D) / 2, sqrt(3)) (Hvarfner et al.
///    2024). These parameters are fitted again, starting from their previous values, when the trials since the last fit reach a tenth of those in
///    that fit, or when the extent of the trials in the model has doubled or halved.
/// d. A proposal maximises the logarithm of the expected improvement (Jones, Schonlau & Welch 1998; Ament et al. 2023) over the lowest predicted mean
///    of a trial, in a box around that trial. The best few of random and local candidates are improved by L-BFGS, and by exchanging values of
///    parameters with few values. Proposals in flight count as if they had returned their predicted loss (kriging believer; Ginsbourger et al. 2010),
///    so that many may be in flight.
/// e. For parameters on a scale that always exist, distances and the box adapt to the curvature of the model over the box. They are measured in
///    coordinates that go halfway to a system in which the model is a sphere. The search can thus follow narrow valleys that are not parallel to an
///    axis.
/// f. The box doubles after three improving trials in a row. It is halved after max(4, parameters, proposals in flight) trials in a row that do not
///    improve. When it has collapsed, a new search begins at a). Ref: Eriksson et al. 2019, "Scalable global optimization via local Bayesian
///    optimization".
/// g. A branch is one combination of choices of all categorical parameters. It is exhausted once the greatest expected improvement is below 0.01 of
///    the distance between the best and the median loss. Then three of four proposals come from another box, around the best trial of all open
///    branches, until that branch is exhausted, too. When no open branch contains a trial with a loss, all branches are open again.
///
/// All individuals are used, whoever proposed them. Tags: run, the number of the box; generation, how often the box has changed its size, or -1
/// during a); index, the number of the proposal (modulo 2^31). Share of BBOB's targets reached within 50 evaluations per dimension (medians of three
/// seeds; one seed in 10 dimensions):
///   dimensions      2     5     10
///   one in flight   0.47  0.29  0.27
///   16 in flight    0.34  0.26
/// This propagator does not know the proposals that other workers have in flight. An ask() takes 12 ms with 300 trials in 30 dimensions, and 20 to 32
/// ms during a fit of c). The first fit uses at most 70 trials and is done in one call; later fits are spread over several calls. Cost of ask() with
/// n trials in the model: O(n^3 + candidates * n * (n + D)), and O(n^3 + n^2 * D) for each likelihood of c). After the first fit, one ask() computes
/// at most max(1, 6e7 / n^3) likelihoods. Cost of tell(): O(D).
class GaussianProcess final : public Propagator {
 public:
  /// @param space copied. @param seed for the trials that cover the space; workers that search together must pass different seeds.
  /// @throws ContractError for a wrong option, or more than 500 dimensions
  GaussianProcess(const Space& space, GaussianProcessOptions options, uint64_t seed);
  ~GaussianProcess() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  int32_t restarts() const noexcept;
  /// Side of the box, as a share of the ranges; 2 at first, which covers the whole space.
  double side() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tw::search
