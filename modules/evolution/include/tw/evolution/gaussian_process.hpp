// SPDX-License-Identifier: Apache-2.0
// Search with a Gaussian process as the model of the loss.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

struct GaussianProcessOptions {
  size_t initial = 0;       ///< trials that cover the space before the first model and at each restart; 0: 2 per parameter, at least 4
  size_t trials = 0;        ///< trials in the model, those nearest to the centre; 0: 50 + 10 per parameter, at most 300
  size_t candidates = 0;    ///< candidate places, of which the best few are improved by gradients; 0: 100 + 10 per parameter, at most 400
  double collapsed = 1e-6;  ///< side of the trust region, as a share of the ranges, at which a new region is started

  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(GaussianProcessOptions& options, OptionVisitor& visitor);

/// Expected improvement on a Gaussian process within a trust region: Bayesian optimization.
///
/// a. The first trials cover the space (Sobol).
/// b. The model: losses, warped to have light tails, are a function of the position in Space::encode() with covariance
///      k(u, v) = a (1 + s + s^2 / 3) exp(-s) + q (1 + 4 u.v)^2 + noise [u = v],   s^2 = 5 sum_d ((u_d - v_d) / length_d)^2.
///    It contains the trials that are nearest to the best one. All choices of a categorical parameter share a length. Parameters that do not exist
///    have a fixed position, so that they add no distance between configurations that both lack them. Trials with a known violation rank after all
///    allowed ones; other infeasible trials and failed ones have the worst loss.
///    Ref: Rasmussen & Williams 2006.
/// c. Lengths, a, q and noise maximise the posterior density, with the prior length ~ log-normal(sqrt 2 + log(D) / 2, sqrt 3) (Hvarfner et al. 2024).
///    They are fitted again, starting from the previous values, whenever the number of known trials has grown by a tenth.
/// d. A proposal maximises the logarithm of the expected improvement (Jones, Schonlau & Welch 1998; Ament et al. 2023) on the lowest mean at a trial,
///    in a box around that trial. The best few of random and local candidates are improved by L-BFGS, and by exchanging values of parameters with few
///    values. Proposals in flight count as if they had returned their predicted loss (kriging believer; Ginsbourger et al. 2010), so that many may be
///    in flight.
/// e. Distances and the box adapt to the curvature of the model over the box, for parameters on a scale that always exist. They use
///    coordinates that go halfway to a system in which the model is a sphere. The search can thus follow narrow valleys that are not parallel to an
///    axis.
/// f. The box doubles after three improving trials in a row, and is halved after max(4, D) trials that do not improve. When it has collapsed, a new
///    search begins at a). Ref: Eriksson et al. 2019, "Scalable global optimization via local Bayesian optimization".
/// g. A branch is one choice for every categorical parameter. It is exhausted once the greatest expected improvement is below 0.01 of the distance
///    between the best and the median loss. Then three of four proposals come from another box, around the best trial of all open branches, until
///    that branch is exhausted too. When no branch is left, all are open again.
///
/// All individuals are used, whoever proposed them. Tags: run, the number of the box; generation, the number of changes of the box, or -1 during a);
/// index, the number of the proposal (modulo 2^31).
/// Within 50 evaluations per dimension it reaches 0.47, 0.29 and 0.27 of BBOB's targets in 2, 5 and 10 dimensions (medians of three seeds; one seed
/// in 10 dimensions). With 16 in flight it reaches 0.34 and 0.26 in 2 and 5 dimensions. It does not know the proposals that other workers have in
/// flight. An ask() takes 12 ms with 300 trials in 30 dimensions, and 20 to 32 ms while c) is due. The first fit in c) uses at most 70 trials and
/// is done in one call; later fits are spread over several calls. Cost of ask() with n trials in the model and D dimensions: O(n^3 + candidates n (n
/// + D)), and O(n^3 + n^2 D) for each likelihood of c). After the first fit, one ask() computes at most max(1, 6e7 / n^3) likelihoods. Cost of
/// tell(): O(D).
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
