// SPDX-License-Identifier: Apache-2.0
// Crossover and mutation of numbers: children are distributed around their parents.
#include <algorithm>
#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/draws.hpp>

#include "child.hpp"

namespace tw::search {
namespace {

bool is_on_a_scale(const Parameter& p, double value) { return p.kind != Parameter::Kind::categorical && !std::isnan(value); }

/// A position near either of two positions between 0 and 1 (simulated binary crossover).
double beside(double a, double b, double eta, CounterRng& random) {
  const bool is_lower = bernoulli(random, 0.5);
  const double distance = std::abs(a - b);
  const double room = is_lower ? std::min(a, b) : 1 - std::max(a, b);
  const double all = 2 - std::pow(1 + 2 * room / distance, -(eta + 1));  // twice the probability that remains within the limits
  const double u = all * uniform(random);
  const double spread = std::pow(u <= 1 ? u : 1 / (2 - u), 1 / (eta + 1));
  return 0.5 * (a + b + (is_lower ? -spread : spread) * distance);
}

/// A position between 0 and 1 near `at`.
double near(double at, double eta, CounterRng& random) {
  const double r = uniform(random);
  const auto share = [&](double tail, double room) { return std::pow(tail + (1 - tail) * std::pow(1 - room, eta + 1), 1 / (eta + 1)); };
  return r < 0.5 ? at + share(2 * r, at) - 1 : at + 1 - share(2 * (1 - r), 1 - at);
}

/// The adjacent value of a parameter with several values, up or down; at a limit, in the other direction.
double next_value(const Parameter& p, double value, bool upwards) {
  const double low = p.has_choices() ? 0 : p.low;
  const double high = p.has_choices() ? static_cast<double>(p.count() - 1) : p.high;
  const double step = p.step > 0 ? p.step : 1;
  if (upwards) return value + step <= high ? value + step : value - step;
  return value - step >= low ? value - step : value + step;
}

void mutate(Offspring& offspring, size_t gene, double eta) {
  const Parameter& p = offspring.space.parameters()[gene];
  double& value = offspring.child[gene];
  if (!is_on_a_scale(p, value)) {
    value = offspring.space.from_unit(gene, uniform(offspring.random));
    return;
  }
  const double from = offspring.space.to_unit(gene, value);
  const double to = near(from, eta, offspring.random);
  const double moved = offspring.space.from_unit(gene, to);
  value = moved == value && p.count() > 1 ? next_value(p, value, to > from) : moved;
}

}  // namespace

Step simulated_binary_crossover(double eta) {
  TW_EXPECTS(eta >= 0 && std::isfinite(eta), "eta must be a finite number of at least 0, got ", eta);
  return [eta](Offspring& offspring) {
    if (offspring.parents.size() < 2) return;
    const std::vector<double>& second = offspring.parents[1]->values;
    offspring.child = offspring.parents[0]->values;
    for (size_t gene = 0; gene < offspring.child.size(); ++gene) {
      double& value = offspring.child[gene];
      if (value == second[gene] || !bernoulli(offspring.random, 0.5)) continue;
      const Parameter& p = offspring.space.parameters()[gene];
      const bool on_a_scale = is_on_a_scale(p, value) && is_on_a_scale(p, second[gene]);
      const auto position = [&](double of) { return offspring.space.to_unit(gene, of); };
      value = on_a_scale ? offspring.space.from_unit(gene, beside(position(value), position(second[gene]), eta, offspring.random)) : second[gene];
    }
  };
}

Step polynomial_mutation(double eta, double n) {
  TW_EXPECTS(eta >= 0 && std::isfinite(eta), "eta must be a finite number of at least 0, got ", eta);
  TW_EXPECTS(n >= 0, "the number of genes must be at least 0, got ", n);
  return [eta, n](Offspring& offspring) {
    const size_t genes = child_of(offspring).size();
    const double probability = std::min(1.0, n / static_cast<double>(genes));
    for (size_t gene = 0; gene < genes; ++gene) {
      if (bernoulli(offspring.random, probability)) mutate(offspring, gene, eta);
    }
  };
}

}  // namespace tw::search
