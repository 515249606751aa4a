// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/nsga2.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/pareto.hpp>
#include <utility>

namespace tw::search {
namespace {

constexpr size_t selections = 8;  // number of selections while one generation of individuals arrives

}  // namespace

Nsga2Options Nsga2Options::within(int64_t evaluations) {
  Nsga2Options options;
  if (evaluations > 0) options.population = static_cast<size_t>(std::clamp<int64_t>(evaluations / 100, 16, 100));
  return options;
}

void visit(Nsga2Options& options, OptionVisitor& visitor) {
  visitor.field("population", options.population, at_least(4, 1 << 20), {.meaning = "number of parents"});
  visitor.field("crossover", options.crossover, {.least = 0, .most = 1}, {.meaning = "probability of a simulated binary crossover"});
  visitor.field("crossover_eta", options.crossover_eta, {.least = 0, .excludes_most = true},
                {.meaning = "distribution index of the crossover; a larger one keeps children nearer to their parents"});
  visitor.field("mutations", options.mutations, {.least = 0, .excludes_most = true}, {.meaning = "mean number of mutated genes per child"});
  visitor.field("mutation_eta", options.mutation_eta, {.least = 0, .excludes_most = true},
                {.meaning = "distribution index of the mutation; a larger one changes genes less"});
}

void Nsga2Options::validate() const { expect_none(out_of_bounds("nsga2", *this)); }

Nsga2::Nsga2(const Space& space, Nsga2Options options)
    : options_((options.validate(), options)),
      breeder_(space, in_turn({[this](Offspring& offspring) { offspring.parents = {&tournament(offspring.random), &tournament(offspring.random)}; },
                               with_probability(options.crossover, simulated_binary_crossover(options.crossover_eta)),
                               polynomial_mutation(options.mutation_eta, options.mutations)})),
      starter_(space, uniform_child()) {}

Proposal Nsga2::ask(const Population& population, CounterRng& random) { return (parents_.empty() ? starter_ : breeder_).ask(population, random); }

void Nsga2::tell(const Individual& individual) {
  if (!individual.has_comparable_loss() && !individual.has_known_violation()) return;
  const size_t objectives = individual.all_objectives().size();
  if (objectives_ == 0) objectives_ = objectives;
  TW_EXPECTS(objectives == objectives_, "an individual has ", objectives, " objectives, but the others have ", objectives_);
  arrived_.push_back(individual);
  const size_t due = parents_.empty() ? options_.population : std::max<size_t>(1, options_.population / selections);
  if (arrived_.size() >= due) select();
}

void Nsga2::select() {
  std::vector<Individual> all = std::exchange(parents_, {});
  std::ranges::move(std::exchange(arrived_, {}), std::back_inserter(all));
  std::vector<const Individual*> individuals;
  for (const Individual& each : all) individuals.push_back(&each);
  const std::vector<size_t> numbers = front_numbers(individuals);
  std::vector<std::vector<size_t>> fronts(*std::ranges::max_element(numbers) + 1);
  for (size_t i = 0; i < all.size(); ++i) fronts[numbers[i]].push_back(i);
  for (const std::vector<size_t>& front : fronts) {
    std::vector<ObjectiveView> points;
    for (const size_t i : front) points.push_back(individuals[i]->all_objectives());
    const std::vector<double> distances = crowding_distances(points);
    std::vector<size_t> order(front.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t k) { return distances[k]; });
    for (const size_t k : order) {
      if (parents_.size() == options_.population) return;
      parents_.push_back(std::move(all[front[k]]));
    }
  }
}

/// Parents are sorted by front, then by crowding distance, so the smaller index wins.
const Individual& Nsga2::tournament(CounterRng& random) const {
  const size_t a = index_below(random, parents_.size());
  const size_t b = index_below(random, parents_.size());
  return parents_[std::min(a, b)];
}

}  // namespace tw::search
