// SPDX-License-Identifier: Apache-2.0
// Steps that make a child from a population. Steps can be combined. A gene is the value of one parameter. Ref: Taubert et al. 2023, arXiv 2301.08713,
// for the operators. The paper's sigmoid crossover is corrected here: the better parent's gene is the more likely one.
#pragma once
#include <functional>
#include <tw/evolution/propagator.hpp>
#include <vector>

namespace tw::search {

/// The state that a step reads and changes.
struct Offspring {
  const Space& space;
  const Population& population;
  CounterRng& random;
  std::vector<const Individual*> parents = {};  ///< individuals selected so far; while it is empty, selections use the whole population
  /// Values in the order of the space. Empty: the next crossover or mutation starts from the first parent's values. Without parents, a mutation
  /// starts from a uniform child, and a crossover does nothing.
  std::vector<double> child = {};
};

using Step = std::function<void(Offspring&)>;

// Selection: each step picks `n` of the individuals selected so far, or all of them if there are fewer.
/// The best `n`; at most 1024 if nothing was selected before.
Step best(size_t n);
Step worst(size_t n);
/// `n` random ones, without repetition.
Step any(size_t n);

// Children.
/// Draws every value uniformly in its scale: random search. Ref: Bergstra & Bengio 2012.
Step uniform_child();
/// Crosses the first two parents: each gene comes from the second one with this probability.
Step uniform_crossover(double probability = 0.5);
/// Takes each gene from a random parent, all equally likely.
Step multiple_parent_crossover();
/// Crosses the first two parents: each gene comes from the better one with probability 1 / (1 + exp(-d / temperature)), where d is the amount by
/// which the better one's loss is lower.
Step sigmoid_crossover(double temperature = 1);
/// Crosses the first two parents. Each gene changes with probability 1/2; otherwise it stays the first parent's. The distance of a changed gene from
/// the parents' midpoint is half the distance between the parents, times a random factor. A larger `eta` keeps the factor nearer to 1. Distances are
/// measured in the gene's scale, and genes stay within their limits. A categorical gene changes to the second parent's.
/// Ref: Deb & Agrawal 1995; within limits as in Deb & Jain 2011, appendix.
Step simulated_binary_crossover(double eta = 15);

// Mutation.
/// Redraws `n` random genes, or all if there are fewer.
Step point_mutation(size_t n = 1);
/// point_mutation() of a random number of genes, uniform between `least` and `most`.
Step random_point_mutation(size_t least, size_t most);
/// Adds to each of `n` random genes a number from normal(0, sigma), as a share of the gene's range in its scale. Reflects genes at the limits.
/// Redraws categorical genes instead.
Step normal_mutation(double sigma = 0.05, size_t n = 1);
/// Moves each of the child's n genes with probability 1 / n, but at least one, as normal_mutation() does. For each child,
/// sigma = largest * 10^(-decades * u) with one number u, uniform from 0 to 1, so that the search tries all scales.
Step multiscale_mutation(double largest = 0.2, double decades = 4);
/// Moves the child by u * (a - b), where a and b are the third and fourth parents and u is one number, uniform from 0 to 1. Moves only numeric genes
/// that the child, a and b all have, in their scale, and reflects them at the limits. Step sizes and directions thus follow the differences between
/// the parents. Ref: Storn & Price 1997.
Step differential_mutation();
/// Moves `n` genes on average, in their scale, each at most to its limit. A larger `eta` makes moves smaller. A gene with finitely many values moves
/// at least to an adjacent value. Redraws categorical genes. Ref: Deb & Deb 2014, "Analysing mutation schemes for real-parameter genetic algorithms".
Step polynomial_mutation(double eta = 20, double n = 1);

// Composition.
Step in_turn(std::vector<Step> steps);
Step with_probability(double probability, Step step);
/// Runs `then` if the population has at least `n` active individuals (see Population::active()); if not, runs `otherwise`.
Step with_population(size_t n, Step then, Step otherwise);

/// The default steps. With fewer than `n` active individuals, the child is uniform. Otherwise, four parents are drawn from the best `n`, and these
/// steps follow in turn, each with its probability: uniform crossover (0.7), differential mutation (0.3), a redraw of one gene (0.1), multiscale
/// mutation (0.8), and a uniform child that replaces the result (0.02).
Step genetic(size_t n = 64);
/// genetic(n) for a search of this many evaluations. n is a fifth of them, clamped to 4..64, so that crossover begins well before the end.
/// @param evaluations of all workers together; 0: no limit, with n = 64
Step genetic_within(int64_t evaluations);

/// Makes up to ten children with `step` and proposes the first one that meets the space's constraints, otherwise the last one. Draws a gene uniformly
/// if it exists in the child but has no value, for example after a crossover of parents with different choices.
class Breeder final : public Propagator {
 public:
  /// @param space copied
  explicit Breeder(const Space& space, Step step = genetic()) : space_(space), step_(std::move(step)) {}
  Proposal ask(const Population& population, CounterRng& random) override;

 private:
  Space space_;
  Step step_;
};

}  // namespace tw::search
