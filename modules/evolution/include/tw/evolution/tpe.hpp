// SPDX-License-Identifier: Apache-2.0
// Search by densities of good and of bad configurations. Ref: Bergstra et al. 2011; Falkner et al. 2018, arXiv 1807.01774, for kernels of several
// parameters; Watanabe 2023, arXiv 2304.11127, for an analysis of the components.
#pragma once
#include <tw/base/option.hpp>
#include <tw/evolution/facade.hpp>

namespace tw::search {

struct TpeOptions {
  size_t startup = 10;       ///< number of trials drawn uniformly at first
  double good_share = 0.1;   ///< share of trials with a loss that count as good
  size_t most_good = 25;     ///< maximum number of trials that count as good
  size_t candidates = 24;    ///< candidates drawn for each proposal
  double bandwidth = 0.5;    ///< bandwidth for numbers, in multiples of Scott's rule
  double uniform_share = 1;  ///< weight of the uniform density, in units of one trial's weight

  /// The number of good trials: ceil(good_share * n), clamped to 1..most_good. @param n trials with a loss, at least 1
  size_t good_of(size_t n) const noexcept;
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(TpeOptions& options, OptionVisitor& visitor);

/// Tree-structured Parzen estimator. Draws configurations x from l and proposes the one with the greatest l(x) / g(x), where l is the density of the
/// good trials and g that of all others. If these densities are right, this x has the greatest expected improvement.
///
///     l(x), g(x) = sum_i w_i * prod_a k_a(x_a | c_ia)    over trials c_i and parameters a that exist in x; one component is uniform
///     numbers:     normal, truncated at the limits, in the scale, with deviation b * s * N^(-1 / (D + 4)) for b = `bandwidth`, N trials that
///                  have the parameter, and D parameters; s is the deviation of their values, with the uniform density as one more.
///                  Scott 1992, theorem 6.4
///     ordered, at most 64 values: the kernel of numbers at the positions of the K values, with deviation at least 1 / K, times each
///                  value's share of the scale
///     choices:     (N + 2) / (N + 1 + K) for c's choice, and 1 / (N + 1 + K) for each other one of the K choices
///     not in c:    uniform, if c lacks the parameter
///     Over a few values and over choices, a tenth of each kernel is uniform, so that one parameter may change while the others stay.
///     w of l:      log(m + 1) - log(r) for the r-th best of the m good trials, as in CMA-ES; w of g: equal
///
/// Kernels cover all parameters jointly, so that the model sees how parameters interact, and how conditional ones depend on their parents. A
/// parameter that x has and c lacks does not influence the kernel around c, except through its parents. This worker's proposals in flight count as
/// bad trials, so that simultaneous proposals keep a distance (constant liar; Ginsbourger et al. 2010). Failed trials, and infeasible ones whose
/// violation is not known, also count as bad. Trials with a known violation rank after all feasible ones. Repeated and infeasible configurations are
/// proposed only if ten rounds of `candidates` contain nothing else.
///
/// Tags: generation, the number of earlier proposals (modulo 2^31).
/// Cost of ask() with n trials: O(candidates * n * D), 1.2 ms with 1,000 trials in 30 dimensions. Cost of tell(): O(n). Memory: O(n * D).
class Tpe final : public Facade {
 public:
  /// @param space copied. @throws ContractError as validate() does
  explicit Tpe(const Space& space, TpeOptions options = {});
};

}  // namespace tw::search
