// SPDX-License-Identifier: Apache-2.0
// Search by quadratic models of the loss.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>
#include <tw/evolution/sampling.hpp>
#include <vector>

namespace tw::search {

struct QuadraticTrustRegionOptions {
  double radius = 0.2;             ///< of the first region, as a share of each parameter's range
  double collapsed = 1e-9;         ///< a region this small, as a share of the range, is abandoned for a new one
  std::vector<double> start = {};  ///< values of the space as the first region's centre; empty: the middle of each scale

  /// @throws ContractError naming the field that is wrong
  void validate(const Space& space) const;
};
void visit(QuadraticTrustRegionOptions& options, OptionVisitor& visitor);

/// Quadratic models of the loss, each trusted within an ellipsoid |A (x - b)| <= radius around the best point b of the run, in the unit cube of
/// Space::encode(): what Powell 2006 (NEWUOA) does with a ball, with two changes, a shape that is learnt and models from more points than they need.
///
/// a. A run begins with its centre and one step along each dimension.
/// b. The model m(x) = c + g y + y H y / 2, y = A (x - b) / radius, is fitted to the losses nearest to b, 3/2 times the number of its coefficients
///    (at most 150), by least squares with weights 1 / (1 + (|y| / 2)^4). With fewer losses than coefficients it has the least |H| (Powell 2004).
/// c. Where it has all it needs, the region takes the shape of its level lines by half: A <- |H|^(1/4) A, with determinant 1; eigenvalues of |H|
///    count as a hundredth of the largest at least, and A keeps a condition of 1e5 at most.
/// d. Proposed is the model's least point in the region (More & Sorensen 1983). If that is nearer to a known one than a twentieth of the radius, then
///    the point of twenty random ones that is farthest from all others; and if it is within a tenth of the radius of b, the radius becomes 0.3 of it.
/// e. If a proposal gains less than a tenth of the predicted gain, the radius becomes 0.7 of it; if it gains 0.7 of the prediction, at least twice
///    the step.
/// f. A region that has collapsed is followed by one at a random place.
/// g. Noise may refute a model: after two refutations in a row a trial right next to b checks for it, again where errors are a millionth of those.
///    Under noise models have 300 points and their H a ridge by the noise that residuals show; the centre is the trial at which the model is least,
///    whatever its own loss is; proposed is a fifth of the radius about the least point of a model with random weights; and the radius, 0.2 again at
///    least, becomes 0.95 of it only when the least point is well inside and gains four standard errors. Such a region does not end.
///
/// With several in flight, here or on other workers, models differ by random weights (the bootstrap of Rubin 1981), and what would be too near is at
/// a distance of radius 10^-3u from the least point, for a uniform u: which scale is the right one is found by trying all. With more than two it is
/// too late for e): the radius is 0.6 10^(u - 1/2) of the distance from b to the 2 D-th nearest trial; each proposal draws u. Models have twice as
/// many points, and the r-th best of these has its weight times 1 / (1 + r / 2 D)^2. A follows them once in D proposals, or a third of those in
/// flight.
///
/// Workers with one space, one set of options and one seed, which differ in their share, go through the same runs together. Failed and infeasible
/// trials are left out of models. Nothing is proposed twice by one worker, unless twenty places near by are known, too. Choices and whole numbers are
/// rounded, which smooth models do not know of: for parameters on scales.
///
/// Tags: run, restarts; generation 0; index, the number of the proposal. Cost of ask(), with p the fewer of 150 and 3/2 times the coefficients, which
/// are q = (D + 1) (D + 2) / 2: O(p q^2 + D^3), 1 ms in 10 dimensions.
class QuadraticTrustRegion final : public Propagator {
 public:
  /// @param space borrowed. @param share which of those that search together this is. @throws ContractError for a wrong option or share,
  /// or more than 1,000 dimensions
  QuadraticTrustRegion(const Space& space, QuadraticTrustRegionOptions options, uint64_t seed, Share share = {});
  ~QuadraticTrustRegion() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  int32_t restarts() const noexcept;
  /// As a share of the ranges.
  double radius() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tw::search
