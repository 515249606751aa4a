// SPDX-License-Identifier: Apache-2.0
// Search by densities of good and of bad configurations. Ref: Bergstra et al. 2011; Falkner et al. 2018, arXiv 1807.01774, for kernels of several
// parameters; Watanabe 2023, arXiv 2304.11127, for what each component does.
#pragma once
#include <tw/base/option.hpp>
#include <tw/evolution/facade.hpp>

namespace tw::search {

struct TpeOptions {
  size_t startup = 10;       ///< as many trials are drawn uniformly first
  double good_share = 0.1;   ///< of the trials with a loss
  size_t most_good = 25;     ///< at most as many are good
  size_t candidates = 24;    ///< drawn for each proposal
  double bandwidth = 0.5;    ///< of numbers: this many of Scott's
  double uniform_share = 1;  ///< weight of the uniform density, in that of a trial

  /// ceil(good_share n), 1 to most_good. @param n trials with a loss, 1 at least
  size_t good_of(size_t n) const noexcept;
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(TpeOptions& options, OptionVisitor& visitor);

/// Tree-structured Parzen estimator: of some configurations x drawn from l it proposes the one with the greatest l(x) / g(x), l being a density of
/// the good trials and g one of all others. That is the one with the greatest expected improvement, if losses are distributed so.
///
///     l(x), g(x) = sum_i w_i prod_a k_a(x_a | c_ia)    over trials c_i and parameters a that exist in x; one component is uniform
///     numbers:     normal, cut off at the limits, in the scale; deviation b s N^(-1 / (D + 4)), with b = `bandwidth`, the deviation s of the N
///                  trials and the uniform density as one more, and D parameters. Scott 1992, theorem 6.4
///     few values in an order (64 at most): the same at their places, of deviation 1 / K at least, times the share of the scale
///                  that each of the K has
///     choices:     (N + 2) / (N + 1 + K) on c's, and 1 / (N + 1 + K) on each other one of the K
///     not in c:    uniform
///     Over a few values and over choices, a tenth of each kernel is uniform, so that one may change while the others stay.
///     w of l:      log(m + 1) - log(r), r = 1 .. m by loss, as CMA-ES has it; of g: equal
///
/// Kernels are of all parameters together, so that it sees what goes with what, parents with their children, too: what exists only in x has no
/// influence but through its parents.
/// What is in flight from here counts as bad, so that proposals at a time keep their distances (a constant liar, Ginsbourger et al. 2010). So does
/// what failed or was infeasible, for where it lies; what violates a constraint by a known amount ranks after all that does not. Nothing is
/// proposed twice, nor against a constraint, unless 240 candidates hold nothing else.
///
/// Tags: generation, how many it has proposed before (modulo 2^31).
/// Cost of ask(): O(candidates n D) for n trials: 1.2 ms at 1,000 of them in 30 dimensions. Of tell(): O(n). Holds O(n D).
class Tpe final : public Facade {
 public:
  /// @param space borrowed. @throws ContractError as validate()
  explicit Tpe(const Space& space, TpeOptions options = {});
};

}  // namespace tw::search
