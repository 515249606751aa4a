// SPDX-License-Identifier: Apache-2.0
// Search by a model of the losses.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

struct GaussianProcessOptions {
  size_t initial = 0;       ///< trials that cover the space before there is a model, and at each restart; 0: 2 for each parameter, at least 4
  size_t trials = 0;        ///< that the model knows, those nearest to the centre; 0: 50 + 10 for each parameter, at most 300
  size_t candidates = 0;    ///< places of which the best few are improved by gradients; 0: 100 + 10 for each parameter, at most 400
  double collapsed = 1e-6;  ///< a trust region whose sides are this small, as a share of the ranges, is abandoned for a new one

  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(GaussianProcessOptions& options, OptionVisitor& visitor);

/// Expected improvement on a Gaussian process within a trust region: Bayesian optimization.
///
/// a. The first trials cover the space (Sobol).
/// b. The model: losses, warped so that tails are light, are a function of the position in Space::encode() with covariance
///      k(u, v) = a (1 + s + s^2 / 3) exp(-s) + q (1 + 4 u.v)^2 + noise [u = v],   s^2 = 5 sum_d ((u_d - v_d) / length_d)^2.
///    It knows the trials that are nearest to the best one. All choices of a categorical parameter share a length; what does not exist is at one
///    place, so that it makes no difference between those that lack it. Failed and infeasible trials have the worst loss.
///    Ref: Rasmussen & Williams 2006.
/// c. Lengths, a, q and noise are those of the highest posterior density, with length ~ log-normal(sqrt 2 + log(D) / 2, sqrt 3) (Hvarfner et al.
///    2024), and are fitted again whenever the number of known trials has grown by a tenth, starting from the previous values.
/// d. Proposed is where the logarithm of the expected improvement on the least mean is greatest (Jones, Schonlau & Welch 1998; Ament et al.
///    2023), in a box around that trial: of random places and local ones the best few are improved by L-BFGS, and by exchanging what has few
///    values. What is in flight counts as if it were known to be as expected (kriging believer; Ginsbourger et al. 2010), so that many may be in
///    flight.
/// e. Distances and the box also follow the curvature of the model over the box, among parameters on a scale that always exist: they go halfway
///    to coordinates in which it is a sphere, so that narrow valleys which are along no axis are followed.
/// f. The box doubles after three trials in a row that improve, and is halved after max(4, D) that do not; one that has collapsed is followed by
///    a new search from a). Ref: Eriksson et al. 2019, "Scalable global optimization via local Bayesian optimization".
/// g. A branch, the choices of all categorical parameters, is exhausted once the greatest expected improvement is below 0.01 of what separates
///    the best loss from the median. Then three of four proposals are made by another box, around the best trial of all other branches, until
///    that one's is exhausted, too, and so on; where no branch is left, all are open again.
///
/// All individuals are used, whoever proposed them. Tags: run, the number of the box; generation, how often the box has changed, or -1 while the
/// space is covered; index, the number of the proposal (modulo 2^31).
/// Within 50 evaluations a dimension it reaches 0.47, 0.29 and 0.27 of BBOB's targets in 2, 5 and 10 dimensions (medians of three seeds, in 10
/// one), and 0.34 and 0.26 in 2 and 5 with 16 in flight. What other workers have in flight it does not know. An ask() takes 12 ms with 300
/// trials in 30 dimensions, and 20 to 32 ms where c) is due, which is spread over several and begins with 70 of the trials. Cost of ask() with n
/// trials in the model and D dimensions: O(n^3 + candidates n (n + D)), and O(n^3 + n^2 D) for each likelihood of c); one ask() computes at most
/// max(1, 6e7 / n^3) of these. Of tell(): O(D).
class GaussianProcess final : public Propagator {
 public:
  /// @param space borrowed. @param seed of the trials that cover the space; workers that search together have different ones.
  /// @throws ContractError for a wrong option, or more than 500 dimensions
  GaussianProcess(const Space& space, GaussianProcessOptions options, uint64_t seed);
  ~GaussianProcess() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  int32_t restarts() const noexcept;
  /// Of the box, as a share of the ranges; 2 at first, which is everything.
  double side() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tw::search
