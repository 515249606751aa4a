// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/breeding.hpp>

#include <algorithm>
#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>
#include <utility>

#include "child.hpp"

namespace tw::search {
namespace {

bool is_better(const Individual* a, const Individual* b) { return std::pair(a->standing(), a->trial) < std::pair(b->standing(), b->trial); }

void expect_probability(double probability) {
  TW_EXPECTS(probability >= 0 && probability <= 1, "a probability must be from 0 to 1, got ", probability);
}

void draw_gene(Offspring& offspring, size_t gene) { offspring.child[gene] = offspring.space.from_unit(gene, uniform(offspring.random)); }

/// @param takes_second called for each gene; whether it comes from the second parent
template <class Choice>
void cross(Offspring& offspring, const Choice& takes_second) {
  if (offspring.parents.size() < 2) return;
  std::vector<double>& child = child_of(offspring);
  const std::vector<double>& second = offspring.parents[1]->values;
  for (size_t gene = 0; gene < child.size(); ++gene) {
    if (takes_second()) child[gene] = second[gene];
  }
}

/// Reflects u into [0, 1].
double reflected(double u) {
  u = std::abs(std::fmod(u, 2.0));
  return u > 1 ? 2 - u : u;
}

void move_gene(Offspring& offspring, size_t gene, double sigma) {
  const Parameter& p = offspring.space.parameters()[gene];
  double& value = offspring.child[gene];
  if (p.kind == Parameter::Kind::categorical || std::isnan(value)) return draw_gene(offspring, gene);
  value = offspring.space.from_unit(gene, reflected(offspring.space.to_unit(gene, value) + sigma * normal(offspring.random)));
}

/// Applies `change` to `n` different genes.
template <class Change>
void change_genes(Offspring& offspring, size_t n, const Change& change) {
  const size_t genes = child_of(offspring).size();
  if (n == 1) return change(index_below(offspring.random, genes));
  std::vector<size_t> order(genes);
  for (size_t i = 0; i < genes; ++i) order[i] = i;
  for (size_t i = 0; i < std::min(n, genes); ++i) {
    std::swap(order[i], order[i + index_below(offspring.random, genes - i)]);
    change(order[i]);
  }
}

}  // namespace

std::vector<double>& child_of(Offspring& offspring) {
  if (!offspring.child.empty()) return offspring.child;
  if (offspring.parents.empty()) {
    uniform_child()(offspring);
  } else {
    offspring.child = offspring.parents.front()->values;
  }
  return offspring.child;
}

Step best(size_t n) {
  return [n](Offspring& offspring) {
    if (!offspring.parents.empty()) {
      const auto end = offspring.parents.begin() + static_cast<int64_t>(std::min(n, offspring.parents.size()));
      std::partial_sort(offspring.parents.begin(), end, offspring.parents.end(), is_better);
      offspring.parents.erase(end, offspring.parents.end());
      return;
    }
    for (size_t rank = 0; rank < std::min(n, offspring.population.ranked_count()); ++rank)
      offspring.parents.push_back(&offspring.population.ranked(rank));
  };
}

Step worst(size_t n) {
  return [n](Offspring& offspring) {
    if (offspring.parents.empty()) {
      for (size_t i = 0; i < offspring.population.active(); ++i) offspring.parents.push_back(&offspring.population.active_at(i));
    }
    const auto end = offspring.parents.begin() + static_cast<int64_t>(std::min(n, offspring.parents.size()));
    std::partial_sort(offspring.parents.begin(), end, offspring.parents.end(), [](auto* a, auto* b) { return is_better(b, a); });
    offspring.parents.erase(end, offspring.parents.end());
  };
}

Step any(size_t n) {
  return [n](Offspring& offspring) {
    const size_t all = offspring.parents.empty() ? offspring.population.active() : offspring.parents.size();
    const size_t wanted = std::min(n, all);
    if (!offspring.parents.empty()) {
      for (size_t i = 0; i < wanted; ++i) std::swap(offspring.parents[i], offspring.parents[i + index_below(offspring.random, all - i)]);
      offspring.parents.resize(wanted);
      return;
    }
    // Few out of many: a sample without replacement. Ref: Floyd's algorithm, Bentley 1987.
    std::vector<size_t> drawn;
    for (size_t last = all - wanted; last < all; ++last) {
      const size_t i = index_below(offspring.random, last + 1);
      drawn.push_back(std::ranges::find(drawn, i) == drawn.end() ? i : last);
    }
    for (const size_t i : drawn) offspring.parents.push_back(&offspring.population.active_at(i));
  };
}

Step uniform_child() {
  return [](Offspring& offspring) {
    offspring.child.resize(offspring.space.size());
    for (size_t gene = 0; gene < offspring.child.size(); ++gene) draw_gene(offspring, gene);
  };
}

Step uniform_crossover(double probability) {
  expect_probability(probability);
  return [probability](Offspring& offspring) { cross(offspring, [&] { return bernoulli(offspring.random, probability); }); };
}

Step multiple_parent_crossover() {
  return [](Offspring& offspring) {
    if (offspring.parents.empty()) return;
    std::vector<double>& child = child_of(offspring);
    for (size_t gene = 0; gene < child.size(); ++gene)
      child[gene] = offspring.parents[index_below(offspring.random, offspring.parents.size())]->values[gene];
  };
}

Step sigmoid_crossover(double temperature) {
  TW_EXPECTS(temperature > 0, "the temperature must be positive, got ", temperature);
  return [temperature](Offspring& offspring) {
    if (offspring.parents.size() < 2) return;
    const double ahead = offspring.parents[0]->loss - offspring.parents[1]->loss;  // positive if the second parent is better
    const double second = 1 / (1 + std::exp(-ahead / temperature));
    cross(offspring, [&] { return bernoulli(offspring.random, second); });
  };
}

Step point_mutation(size_t n) {
  return [n](Offspring& offspring) { change_genes(offspring, n, [&](size_t gene) { draw_gene(offspring, gene); }); };
}

Step random_point_mutation(size_t least, size_t most) {
  TW_EXPECTS(least <= most, "the range of genes to mutate, ", least, " to ", most, ", is reversed");
  return [least, most](Offspring& offspring) { point_mutation(least + index_below(offspring.random, most - least + 1))(offspring); };
}

Step normal_mutation(double sigma, size_t n) {
  TW_EXPECTS(sigma > 0 && std::isfinite(sigma), "sigma must be positive and finite, got ", sigma);
  return [sigma, n](Offspring& offspring) { change_genes(offspring, n, [&](size_t gene) { move_gene(offspring, gene, sigma); }); };
}

Step multiscale_mutation(double largest, double decades) {
  TW_EXPECTS(largest > 0 && std::isfinite(largest), "the largest deviation must be positive and finite, got ", largest);
  TW_EXPECTS(decades >= 0 && std::isfinite(decades), "decades must be a finite number of at least 0, got ", decades);
  return [largest, decades](Offspring& offspring) {
    const size_t genes = child_of(offspring).size();
    const double sigma = largest * std::pow(10, -decades * uniform(offspring.random));
    const size_t sure = index_below(offspring.random, genes);
    for (size_t gene = 0; gene < genes; ++gene) {
      if (gene == sure || index_below(offspring.random, genes) == 0) move_gene(offspring, gene, sigma);
    }
  };
}

Step differential_mutation() {
  return [](Offspring& offspring) {
    if (offspring.parents.size() < 4) return;
    std::vector<double>& child = child_of(offspring);
    const double factor = uniform(offspring.random);
    for (size_t gene = 0; gene < child.size(); ++gene) {
      if (offspring.space.parameters()[gene].kind == Parameter::Kind::categorical) continue;
      const auto position = [&](double value) { return offspring.space.to_unit(gene, value); };
      const double to =
          position(child[gene]) + factor * (position(offspring.parents[2]->values[gene]) - position(offspring.parents[3]->values[gene]));
      if (!std::isnan(to)) child[gene] = offspring.space.from_unit(gene, reflected(to));
    }
  };
}

Step in_turn(std::vector<Step> steps) {
  return [steps = std::move(steps)](Offspring& offspring) {
    for (const Step& step : steps) step(offspring);
  };
}

Step with_probability(double probability, Step step) {
  expect_probability(probability);
  return [probability, step = std::move(step)](Offspring& offspring) {
    if (bernoulli(offspring.random, probability)) step(offspring);
  };
}

Step with_population(size_t n, Step then, Step otherwise) {
  return [n, then = std::move(then), otherwise = std::move(otherwise)](Offspring& offspring) {
    (offspring.population.active() >= n ? then : otherwise)(offspring);
  };
}

Step genetic(size_t n) {
  TW_EXPECTS(n >= 2, "genetic() selects parents from the n best individuals: n must be at least 2, got ", n);
  return with_population(
      n,
      in_turn({best(n), any(4), with_probability(0.7, uniform_crossover()), with_probability(0.3, differential_mutation()),
               with_probability(0.1, point_mutation()), with_probability(0.8, multiscale_mutation()), with_probability(0.02, uniform_child())}),
      uniform_child());
}

Step genetic_within(int64_t evaluations) {
  return evaluations == 0 ? genetic() : genetic(static_cast<size_t>(std::clamp<int64_t>(evaluations / 5, 4, 64)));
}

Proposal Breeder::ask(const Population& population, CounterRng& random) {
  constexpr int attempts = 10;
  Proposal proposal;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    Offspring offspring{space_, population, random};
    step_(offspring);
    std::vector<double>& child = child_of(offspring);
    for (size_t gene = 0; gene < child.size(); ++gene) {
      if (std::isnan(child[gene])) draw_gene(offspring, gene);
    }
    proposal.values = std::move(child);
    space_.repair(proposal.values);
    if (space_.violated(proposal.values).empty()) break;
  }
  return proposal;
}

}  // namespace tw::search
