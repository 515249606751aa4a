// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/breeding.hpp>

#include <algorithm>
#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>
#include <utility>

namespace tw::search {
namespace {

bool is_better(const Individual* a, const Individual* b) { return std::pair(a->standing(), a->trial) < std::pair(b->standing(), b->trial); }

void expect_probability(double probability) { TW_EXPECTS(probability >= 0 && probability <= 1, "a probability is 0 to 1, got ", probability); }

/// The child. Without a child it starts as a copy of the first parent, and without parents as a uniform sample.
std::vector<double>& child_of(Brood& brood) {
  if (!brood.child.empty()) return brood.child;
  if (brood.parents.empty()) {
    uniform_child()(brood);
  } else {
    brood.child = brood.parents.front()->values;
  }
  return brood.child;
}

void draw_gene(Brood& brood, size_t gene) { brood.child[gene] = brood.space.from_unit(gene, uniform(brood.random)); }

/// @param takes_second called for each gene; whether it comes from the second parent
template <class Choice>
void cross(Brood& brood, const Choice& takes_second) {
  if (brood.parents.size() < 2) return;
  std::vector<double>& child = child_of(brood);
  const std::vector<double>& second = brood.parents[1]->values;
  for (size_t gene = 0; gene < child.size(); ++gene) {
    if (takes_second()) child[gene] = second[gene];
  }
}

/// Reflects u into [0, 1].
double reflected(double u) {
  u = std::abs(std::fmod(u, 2.0));
  return u > 1 ? 2 - u : u;
}

void move_gene(Brood& brood, size_t gene, double sigma) {
  const Parameter& p = brood.space.parameters()[gene];
  double& value = brood.child[gene];
  if (p.kind == Parameter::Kind::categorical || std::isnan(value)) return draw_gene(brood, gene);
  value = brood.space.from_unit(gene, reflected(brood.space.to_unit(gene, value) + sigma * normal(brood.random)));
}

/// Applies `change` to `n` different genes.
template <class Change>
void change_genes(Brood& brood, size_t n, const Change& change) {
  const size_t genes = child_of(brood).size();
  if (n == 1) return change(index_below(brood.random, genes));
  std::vector<size_t> order(genes);
  for (size_t i = 0; i < genes; ++i) order[i] = i;
  for (size_t i = 0; i < std::min(n, genes); ++i) {
    std::swap(order[i], order[i + index_below(brood.random, genes - i)]);
    change(order[i]);
  }
}

}  // namespace

Step best(size_t n) {
  return [n](Brood& brood) {
    if (!brood.parents.empty()) {
      const auto end = brood.parents.begin() + static_cast<int64_t>(std::min(n, brood.parents.size()));
      std::partial_sort(brood.parents.begin(), end, brood.parents.end(), is_better);
      brood.parents.erase(end, brood.parents.end());
      return;
    }
    for (size_t rank = 0; rank < std::min(n, brood.population.ranked_count()); ++rank) brood.parents.push_back(&brood.population.ranked(rank));
  };
}

Step worst(size_t n) {
  return [n](Brood& brood) {
    if (brood.parents.empty()) {
      for (size_t i = 0; i < brood.population.active(); ++i) brood.parents.push_back(&brood.population.active_at(i));
    }
    const auto end = brood.parents.begin() + static_cast<int64_t>(std::min(n, brood.parents.size()));
    std::partial_sort(brood.parents.begin(), end, brood.parents.end(), [](auto* a, auto* b) { return is_better(b, a); });
    brood.parents.erase(end, brood.parents.end());
  };
}

Step any(size_t n) {
  return [n](Brood& brood) {
    const size_t all = brood.parents.empty() ? brood.population.active() : brood.parents.size();
    const size_t wanted = std::min(n, all);
    if (!brood.parents.empty()) {
      for (size_t i = 0; i < wanted; ++i) std::swap(brood.parents[i], brood.parents[i + index_below(brood.random, all - i)]);
      brood.parents.resize(wanted);
      return;
    }
    // Few out of many: a sample without replacement. Ref: Floyd's algorithm, Bentley 1987.
    std::vector<size_t> drawn;
    for (size_t last = all - wanted; last < all; ++last) {
      const size_t i = index_below(brood.random, last + 1);
      drawn.push_back(std::ranges::find(drawn, i) == drawn.end() ? i : last);
    }
    for (const size_t i : drawn) brood.parents.push_back(&brood.population.active_at(i));
  };
}

Step uniform_child() {
  return [](Brood& brood) {
    brood.child.resize(brood.space.size());
    for (size_t gene = 0; gene < brood.child.size(); ++gene) draw_gene(brood, gene);
  };
}

Step uniform_crossover(double probability) {
  expect_probability(probability);
  return [probability](Brood& brood) { cross(brood, [&] { return bernoulli(brood.random, probability); }); };
}

Step multiple_parent_crossover() {
  return [](Brood& brood) {
    if (brood.parents.empty()) return;
    std::vector<double>& child = child_of(brood);
    for (size_t gene = 0; gene < child.size(); ++gene) child[gene] = brood.parents[index_below(brood.random, brood.parents.size())]->values[gene];
  };
}

Step sigmoid_crossover(double temperature) {
  TW_EXPECTS(temperature > 0, "a temperature is positive, got ", temperature);
  return [temperature](Brood& brood) {
    if (brood.parents.size() < 2) return;
    const double ahead = brood.parents[0]->loss - brood.parents[1]->loss;  // positive if the second parent is better
    const double second = 1 / (1 + std::exp(-ahead / temperature));
    cross(brood, [&] { return bernoulli(brood.random, second); });
  };
}

Step point_mutation(size_t n) {
  return [n](Brood& brood) { change_genes(brood, n, [&](size_t gene) { draw_gene(brood, gene); }); };
}

Step random_point_mutation(size_t least, size_t most) {
  TW_EXPECTS(least <= most, "from ", least, " to ", most, " genes is no range");
  return [least, most](Brood& brood) { point_mutation(least + index_below(brood.random, most - least + 1))(brood); };
}

Step normal_mutation(double sigma, size_t n) {
  TW_EXPECTS(sigma > 0 && std::isfinite(sigma), "a deviation is positive, got ", sigma);
  return [sigma, n](Brood& brood) { change_genes(brood, n, [&](size_t gene) { move_gene(brood, gene, sigma); }); };
}

Step multiscale_mutation(double largest, double decades) {
  TW_EXPECTS(largest > 0 && std::isfinite(largest), "a deviation is positive, got ", largest);
  TW_EXPECTS(decades >= 0 && std::isfinite(decades), "scales span no less than 0 decades, got ", decades);
  return [largest, decades](Brood& brood) {
    const size_t genes = child_of(brood).size();
    const double sigma = largest * std::pow(10, -decades * uniform(brood.random));
    const size_t sure = index_below(brood.random, genes);
    for (size_t gene = 0; gene < genes; ++gene) {
      if (gene == sure || index_below(brood.random, genes) == 0) move_gene(brood, gene, sigma);
    }
  };
}

Step differential_mutation() {
  return [](Brood& brood) {
    if (brood.parents.size() < 4) return;
    std::vector<double>& child = child_of(brood);
    const double factor = uniform(brood.random);
    for (size_t gene = 0; gene < child.size(); ++gene) {
      if (brood.space.parameters()[gene].kind == Parameter::Kind::categorical) continue;
      const auto position = [&](double value) { return brood.space.to_unit(gene, value); };
      const double to = position(child[gene]) + factor * (position(brood.parents[2]->values[gene]) - position(brood.parents[3]->values[gene]));
      if (!std::isnan(to)) child[gene] = brood.space.from_unit(gene, reflected(to));
    }
  };
}

Step in_turn(std::vector<Step> steps) {
  return [steps = std::move(steps)](Brood& brood) {
    for (const Step& step : steps) step(brood);
  };
}

Step with_probability(double probability, Step step) {
  expect_probability(probability);
  return [probability, step = std::move(step)](Brood& brood) {
    if (bernoulli(brood.random, probability)) step(brood);
  };
}

Step with_population(size_t n, Step then, Step otherwise) {
  return [n, then = std::move(then), otherwise = std::move(otherwise)](Brood& brood) { (brood.population.active() >= n ? then : otherwise)(brood); };
}

Step genetic(size_t n) {
  TW_EXPECTS(n >= 2, "two parents are selected from the best n, got ", n);
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
    Brood brood{space_, population, random};
    step_(brood);
    std::vector<double>& child = child_of(brood);
    for (size_t gene = 0; gene < child.size(); ++gene) {
      if (std::isnan(child[gene])) draw_gene(brood, gene);
    }
    proposal.values = std::move(child);
    space_.repair(proposal.values);
    if (space_.violated(proposal.values).empty()) break;
  }
  return proposal;
}

}  // namespace tw::search
