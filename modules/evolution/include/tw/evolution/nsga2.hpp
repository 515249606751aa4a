// SPDX-License-Identifier: Apache-2.0
// Search in several objectives. Ref: Deb, Pratap, Agarwal & Meyarivan 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II".
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/propagator.hpp>
#include <vector>

namespace tw::search {

struct Nsga2Options {
  size_t population = 100;    ///< number of parents, at least 4
  double crossover = 0.9;     ///< probability of a simulated binary crossover
  double crossover_eta = 15;  ///< a larger value keeps children nearer to their parents
  double mutations = 1;       ///< mean number of mutated genes per child
  double mutation_eta = 20;   ///< a larger value makes mutations smaller

  /// Options for a search of this many evaluations: the population is a hundredth of them, clamped to 16..100. @param evaluations of all workers; 0:
  /// no limit
  static Nsga2Options within(int64_t evaluations);
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(Nsga2Options& options, OptionVisitor& visitor);

/// NSGA-II without generations: results arrive one by one. Once the number of new results reaches an eighth of `population`, a selection keeps the
/// best `population` individuals among parents and new results. It keeps whole Pareto fronts first (see pareto.hpp), and from the last front the
/// points with the greatest crowding distance. A child has two parents. Each is the better of two random individuals, by front and then by crowding
/// distance. Simulated binary crossover and polynomial mutation make the child. Until there are `population` results, children are uniform.
///
/// Mixed and conditional spaces: numeric genes vary in their own scale; a categorical gene comes from a parent or is redrawn. Individuals with a
/// known violation rank after all feasible ones, by the amount of violation. Failed ones are left out. A single objective also works.
/// Cost of ask(): O(genes). A selection, every p / 8 results, costs O(p log p) with p parents and up to two objectives. Neither cost grows with the
/// number of trials.
class Nsga2 final : public Propagator {
 public:
  /// @param space copied. @throws ContractError as validate() does
  explicit Nsga2(const Space& space, Nsga2Options options = {});

  Nsga2(const Nsga2&) = delete;
  Nsga2& operator=(const Nsga2&) = delete;

  Proposal ask(const Population& population, CounterRng& random) override;
  /// @throws ContractError if the number of objectives changes
  void tell(const Individual& individual) override;

 private:
  void select();
  const Individual& tournament(CounterRng& random) const;

  Nsga2Options options_;
  size_t objectives_ = 0;            // 0: not known yet
  std::vector<Individual> parents_;  // sorted: the best first
  std::vector<Individual> arrived_;  // results since the last selection
  Breeder breeder_;                  // makes children from parents
  Breeder starter_;                  // proposes while there are no parents
};

}  // namespace tw::search
