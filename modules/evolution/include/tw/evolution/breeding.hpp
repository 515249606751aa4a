// SPDX-License-Identifier: Apache-2.0
// Steps that make a child from a population; they can be combined. Ref: Taubert et al. 2023, arXiv 2301.08713, for the operators; its sigmoid
// crossover is corrected here: the better gene is the more likely one.
#pragma once
#include <functional>
#include <tw/evolution/propagator.hpp>
#include <vector>

namespace tw::search {

/// What a step works on.
struct Offspring {
  const Space& space;
  const Population& population;
  CounterRng& random;
  std::vector<const Individual*> parents = {};  ///< selected so far; none: the whole population stands to be selected from
  std::vector<double> child = {};               ///< in the order of the space; empty: not made yet, and then the first parent's values
};

using Step = std::function<void(Offspring&)>;

// Selection, from what was selected before; fewer where there are fewer.
/// Of a whole population 1024 at most.
Step best(size_t n);
Step worst(size_t n);
/// Without repetition.
Step any(size_t n);

// Children.
/// Every value uniform in its scale: random search. Ref: Bergstra & Bengio 2012.
Step uniform_child();
/// Of the first two parents: each gene from the second one with this probability.
Step uniform_crossover(double probability = 0.5);
/// Each gene from any of the parents, all equally likely.
Step multiple_parent_crossover();
/// Of the first two parents: each gene from the better one with probability 1 / (1 + exp(-d / temperature)), d the difference of losses.
Step sigmoid_crossover(double temperature = 1);
/// Of the first two parents: each gene, with probability 1/2, lies as far from the middle between theirs as they do times a random factor, which is
/// the nearer to 1 the larger `eta` is; within the limits, in its scale. Categorical ones come from either parent. Ref: Deb & Agrawal 1995; within
/// limits as in Deb & Jain 2011, appendix.
Step simulated_binary_crossover(double eta = 15);

// Mutation.
/// Draws `n` random genes again; all of them where there are fewer.
Step point_mutation(size_t n = 1);
/// From `least` to `most` genes, each number as likely.
Step random_point_mutation(size_t least, size_t most);
/// Moves `n` random genes by normal(0, sigma) of the range in its scale, reflected at the limits; draws categorical ones again.
Step normal_mutation(double sigma = 0.05, size_t n = 1);
/// Each gene with probability 1 / n, and one at least, moves by normal(0, sigma), likewise; sigma = largest 10^(-decades u) for one uniform u: which
/// scale is the right one is found by trying all.
Step multiscale_mutation(double largest = 0.2, double decades = 4);
/// With a third and a fourth parent a and b: the child moves by u (a - b) in each gene that all have and is a number, in its scale, reflected at the
/// limits; one uniform u. Step sizes and directions follow the differences between the parents. Ref: Storn & Price 1997.
Step differential_mutation();
/// `n` genes on average move by up to their distance from the limits, by less for a larger `eta`, in their scale; a gene with a finite number of
/// values, to the next one at least. Categorical ones are redrawn. Ref: Deb & Deb 2014, "Analysing mutation schemes for real-parameter genetic
/// algorithms".
Step polynomial_mutation(double eta = 20, double n = 1);

// Composition.
Step in_turn(std::vector<Step> steps);
Step with_probability(double probability, Step step);
/// `then` where at least `n` individuals are active.
Step with_population(size_t n, Step then, Step otherwise);

/// The default: with fewer than `n` individuals, a uniform child. Otherwise four of the best n; uniform crossover with probability 0.7, differential
/// mutation with 0.3, one gene drawn again with 0.1, multiscale mutation with 0.8, and with 0.02 a uniform child instead of all these.
Step genetic(size_t n = 64);
/// The same for a search of this many evaluations: n is a fifth of them, 4 to 64, so that breeding begins well before the end. @param evaluations 0:
/// no limit
Step genetic_within(int64_t evaluations);

/// Makes a child by steps, repeated up to ten times until it meets the space's constraints. A gene that exists but that the steps left without a
/// value, for example after a crossover of parents with other choices, is drawn again.
class Breeder final : public Propagator {
 public:
  /// @param space borrowed
  explicit Breeder(const Space& space, Step step = genetic()) : space_(space), step_(std::move(step)) {}
  Proposal ask(const Population& population, CounterRng& random) override;

 private:
  const Space& space_;
  Step step_;
};

}  // namespace tw::search
