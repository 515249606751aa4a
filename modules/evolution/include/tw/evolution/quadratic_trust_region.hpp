// SPDX-License-Identifier: Apache-2.0
// Search with quadratic models of the loss.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>
#include <tw/evolution/sampling.hpp>
#include <vector>

namespace tw::search {

struct QuadraticTrustRegionOptions {
  double radius = 0.2;             ///< radius of the first region, as a share of each parameter's range
  double collapsed = 1e-9;         ///< radius, as a share of the range, below which a new region is started
  std::vector<double> start = {};  ///< the first region's centre, as values of the space; empty: the middle of each scale

  /// @throws ContractError naming the field that is wrong
  void validate(const Space& space) const;
};
void visit(QuadraticTrustRegionOptions& options, OptionVisitor& visitor);

/// Fits quadratic models of the loss and trusts each within an ellipsoid |A (x - b)| <= radius around the best point b of the run, in the unit cube
/// of Space::encode(), with D dimensions. It extends Powell 2006 (NEWUOA), which uses a ball: here the ellipsoid's shape is learnt, and models are
/// fitted to more points than they need.
///
/// a. A run begins with its centre and one step of length `radius` along each dimension.
/// b. The model m(x) = c + g y + y H y / 2, y = A (x - b) / radius, is fitted to the losses of the trials nearest to b by least squares with weights
///    1 / (1 + (|y| / 2)^4). The number of losses is 3/2 times the number of coefficients, at most 150. With fewer losses than coefficients, the
///    model with the smallest |H| is chosen (Powell 2004).
/// c. If there are at least as many losses as coefficients, the region's shape goes halfway to the model's level lines: A <- |H|^(1/4) A, scaled to
///    determinant 1. Eigenvalues of |H| are raised to at least a hundredth of the largest, and the condition number of A is at most 1e5.
/// d. A proposal is the model's minimum in the region (More & Sorensen 1983). If a known point is nearer to the minimum than a twentieth of the
///    radius, the proposal is instead the one of twenty random points that is farthest from all known points. If, in addition, b is nearer to the
///    minimum than a tenth of the radius, the radius is multiplied by 0.3.
/// e. If a proposal gains less than a tenth of the predicted gain, the radius is multiplied by 0.7. If it becomes the best point and gains more than
///    0.7 of the predicted gain, the radius becomes at least twice the step.
/// f. When a region has collapsed, a new one begins at a random place.
/// g. Predictions may fail because losses are noisy. After two failed predictions in a row, a trial right next to b checks for noise. If it finds
///    none, the check is repeated once errors have fallen to a millionth of the error that caused it. Once noise is found, models have 300 points,
///    and the regularisation of H follows the noise in the residuals. The centre is the trial in the region with the lowest model value, whatever its
///    own loss. A proposal lies a fifth of the radius away from the minimum of a model with random weights. When noise is found, the radius is reset
///    to at least its first value. After that, it is multiplied by 0.95 only when the minimum is well inside and gains four standard errors, so that
///    such a region normally does not end.
///
/// With several proposals in flight, here or on other workers, models differ by random weights (the bootstrap of Rubin 1981). A proposal too near to
/// a known point moves to a distance of radius * 10^(-3 * u) from the minimum, with u uniform from 0 to 1, so that all scales are tried. With more
/// than two in flight, results come too late for e). The radius is then 0.6 * 10^(u - 1/2) times the distance from b to the (2 * D)-th nearest trial,
/// with a new u for each proposal. Models have up to twice the number of points, at most 150, and the weight of the r-th best is multiplied by
/// 1 / (1 + r / (2 * D))^2. A is updated once in max(D, a third of the number in flight) proposals.
///
/// Workers with the same space, options and seed but different shares go through the same runs together. Models leave out failed trials, and
/// infeasible ones whose violation is not known. A worker repeats one of its proposals only if twenty places near it have been proposed, too. Use
/// this propagator for parameters on scales: choices and integers are rounded, which smooth models do not represent.
///
/// Tags: run, the number of restarts; generation 0; index, the number of the proposal. Cost of ask(): O(p * q^2 + D^3), 1 ms in 10 dimensions, with
/// q = (D + 1) * (D + 2) / 2 coefficients and p = min(150, 3/2 * q) points.
class QuadraticTrustRegion final : public Propagator {
 public:
  /// @param space copied. @param share identifies this worker among those that search together. @throws ContractError for a wrong option or share,
  /// or more than 1,000 dimensions
  QuadraticTrustRegion(const Space& space, QuadraticTrustRegionOptions options, uint64_t seed, Share share = {});
  ~QuadraticTrustRegion() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  int32_t restarts() const noexcept;
  /// The current radius, as a share of the ranges.
  double radius() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tw::search
