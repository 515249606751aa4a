// SPDX-License-Identifier: Apache-2.0
// Steps that make a child from a population. Steps can be combined. Ref: Taubert et al. 2023, arXiv 2301.08713, for the operators. Its sigmoid
// crossover is corrected here, so that the better parent's gene is the more likely one.
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
  std::vector<const Individual*> parents = {};  ///< individuals selected so far; empty: the whole population
  std::vector<double> child = {};  ///< values in the order of the space; empty: not made yet, so the next step starts from the first parent's values
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
/// Crosses the first two parents: each gene comes from the better one with probability 1 / (1 + exp(-d / temperature)), where d is the difference of
/// their losses.
Step sigmoid_crossover(double temperature = 1);
/// Crosses the first two parents. Each gene changes with probability 1/2; otherwise it stays the first parent's. A changed gene's distance from the
/// parents' midpoint is half the parents' distance times a random factor. A larger `eta` keeps the factor nearer to 1. Values stay within the limits,
/// in their scale. A changed categorical gene is the second parent's.
/// Ref: Deb & Agrawal 1995; within limits as in Deb & Jain 2011, appendix.
Step simulated_binary_crossover(double eta = 15);

// Mutation.
/// Redraws `n` random genes, or all if there are fewer.
Step point_mutation(size_t n = 1);
/// The same for a random number of genes, uniform between `least` and `most`.
Step random_point_mutation(size_t least, size_t most);
/// Moves `n` random genes by normal(0, sigma), as a share of the gene's range in its scale, and reflects them at the limits. Redraws categorical
/// genes.
Step normal_mutation(double sigma = 0.05, size_t n = 1);
/// Moves each of the n genes like normal_mutation() with probability 1 / n, and at least one gene. For each child, sigma = largest * 10^(-decades u)
/// with one uniform u, so that the search tries all scales.
Step multiscale_mutation(double largest = 0.2, double decades = 4);
/// Moves the child by u (a - b), where a and b are the third and fourth parents and u is one uniform number. Applies to each numeric gene that the
/// child, a and b have, in its scale, reflected at the limits. Step sizes and directions follow the differences between the parents. Ref: Storn &
/// Price 1997.
Step differential_mutation();
/// Moves `n` genes on average, each by at most its distance from the limits, in its scale. A larger `eta` makes moves smaller. A gene with finitely
/// many values moves at least to the next one. Redraws categorical genes. Ref: Deb & Deb 2014, "Analysing mutation schemes for real-parameter genetic
/// algorithms".
Step polynomial_mutation(double eta = 20, double n = 1);

// Composition.
Step in_turn(std::vector<Step> steps);
Step with_probability(double probability, Step step);
/// Runs `then` if at least `n` individuals are active, else `otherwise`.
Step with_population(size_t n, Step then, Step otherwise);

/// The default steps. With fewer than `n` individuals, the child is uniform. Otherwise, four parents are drawn from the best `n`. Uniform crossover
/// follows with probability 0.7, differential mutation with 0.3, a redraw of one gene with 0.1, and multiscale mutation with 0.8. With probability
/// 0.02, a uniform child replaces the result.
Step genetic(size_t n = 64);
/// genetic() for a search of this many evaluations. n is a fifth of them, clamped to 4..64, so that breeding begins well before the end.
/// @param evaluations 0: no limit, with n = 64
Step genetic_within(int64_t evaluations);

/// Makes children with `step`, at most ten, until one meets the space's constraints; otherwise proposes the last one. Draws each gene that exists in
/// the child but has no value, for example after a crossover of parents with different choices.
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
