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
  size_t population = 100;    ///< of parents, 4 at least
  double crossover = 0.9;     ///< probability of a simulated binary crossover
  double crossover_eta = 15;  ///< the larger, the nearer are children to their parents
  double mutations = 1;       ///< genes of a child that mutate, on average
  double mutation_eta = 20;   ///< the larger, the less do they change

  /// For a search of this many evaluations: a population of a hundredth of them, 16 to 100. @param evaluations 0: no limit
  static Nsga2Options within(int64_t evaluations);
  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(Nsga2Options& options, OptionVisitor& visitor);

/// NSGA-II without generations: results arrive one by one. Those since the last selection join the parents; when they number an eighth of the
/// parents, the best `population` of both stay: by fronts, and of the last front that fits in part those with the greatest crowding distance. A
/// child has two parents, each the better of two drawn from these, by front and then by crowding distance; simulated binary crossover and polynomial
/// mutation make it of them. Until there are as many results as parents, it is uniform.
///
/// Mixed and conditional spaces: genes are numbers in their own scale; a categorical one is a parent's, or is drawn again. Individuals that
/// violate constraints rank after all that do not, by the amount; failed ones are left out. A single objective works, too.
/// Cost of ask(): O(genes), and a selection of O(M p log p) for p parents and two objectives, for each p/8 results; nothing grows with the trials.
class Nsga2 final : public Propagator {
 public:
  /// @param space borrowed. @throws ContractError as validate()
  explicit Nsga2(const Space& space, Nsga2Options options = {});

  Nsga2(const Nsga2&) = delete;
  Nsga2& operator=(const Nsga2&) = delete;

  Proposal ask(const Population& population, CounterRng& random) override;
  /// @throws ContractError for another number of objectives than before
  void tell(const Individual& individual) override;

 private:
  void select();
  const Individual& tournament(CounterRng& random) const;

  Nsga2Options options_;
  size_t objectives_ = 0;            // 0: not known yet
  std::vector<Individual> parents_;  // sorted: the best first
  std::vector<Individual> arrived_;  // since they were selected
  Breeder breeder_;                  // from parents
  Breeder starter_;                  // while there are none
};

}  // namespace tw::search
