// SPDX-License-Identifier: Apache-2.0
// Differential evolution that adapts itself.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

struct LShadeOptions {
  size_t population = 0;     ///< at first; 0: 18 for each dimension, but no more than a tenth of the evaluations, and 10 at least
  int64_t evaluations = 0;   ///< of all workers together, over which the population shrinks to 4; 0: as many as can be, and it does not shrink
  size_t memory = 6;         ///< entries of the history of successes
  double greediness = 0.11;  ///< the share of the best members of which one is moved to
  double archive = 2.6;      ///< members that were replaced and are kept, as a multiple of the population

  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(LShadeOptions& options, OptionVisitor& visitor);

/// L-SHADE: differential evolution with success-history based adaptation and a population that shrinks linearly, in the unit cube of Space::encode().
///
///   v = x + F (p - x) + F (a - b),   u_d = v_d where a uniform number is at most CR, and for one d in any case; else x_d
///
/// with a target x, each member in turn; p one of the best `greediness` of the members, two at least; a another member; b another member or one of
/// the archive. Where v_d leaves the cube it becomes the middle of x_d and the bound. u replaces x if it is not worse. If it is better, x goes into
/// the archive, and F and CR are successes. F ~ Cauchy(m_F, 0.1), drawn again until above 0, at most 1, and CR ~ normal(m_CR, 0.1) within [0, 1],
/// with a random entry (m_F, m_CR) of the history, at first 0.5 everywhere. After as many results as there are members the next entry becomes the
/// Lehmer means sum w s^2 / sum w s of the successes, w what each gained; CR stays at 0 once all successful ones were 0. Ref: Tanabe & Fukunaga 2014,
/// "Improving the search performance of SHADE using linear population size reduction".
///
/// There are no generations: a result is compared with its target when it comes in, or with the worst member if its target has left. Any number may
/// be in flight. An individual of others that is better than the worst member takes its place. What does not count is never a member; with fewer than
/// four members, proposals are uniformly random.
///
/// Tags: generation, updates of the history; index, the target (modulo 2^31), -1 for random ones. Cost of ask(): O(population + D), of tell():
/// O(in flight + population + D).
class LShade final : public Propagator {
 public:
  /// @param space borrowed. @throws ContractError for a wrong option, or more than 2,000 dimensions
  explicit LShade(const Space& space, LShadeOptions options = {});
  ~LShade() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  /// Members; grows to the first size, and shrinks from there.
  size_t members() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tw::search
