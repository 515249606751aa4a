// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/hybrid.hpp>

#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace {

constexpr int64_t early = 150;  // proposals per dimension, over all workers
constexpr int64_t late = 1000;  // in the same unit
constexpr double of_region_early = 0.95;
constexpr double of_region = 0.1;
constexpr double bred_late = 0.75;
constexpr double deviation = 0.1;
constexpr int32_t of_no_run = -1;

/// Run number of the region, distinct from those of CMA-ES, which start at 0.
int32_t marked(int32_t run) { return -2 - run; }

}  // namespace

Hybrid::Hybrid(const Space& space, uint64_t seed, Share share)
    : space_(space), seed_(seed), share_(share), region_(space, {}, seed, share), breeder_(space) {}

Proposal Hybrid::ask(const Population& population, CounterRng& random) {
  const int64_t by_dimension = asked_++ * share_.stride / static_cast<int64_t>(space_.dimensions());
  if (bernoulli(random, by_dimension < early ? of_region_early : of_region)) {
    Proposal proposal = region_.ask(population, random);
    proposal.tag.run = marked(proposal.tag.run);
    return proposal;
  }
  if (by_dimension >= late && bernoulli(random, bred_late)) {
    Proposal proposal = breeder_.ask(population, random);
    proposal.tag.run = of_no_run;
    return proposal;
  }
  if (!cma_es_) {
    const Individual* best = population.ranked_count() > 0 ? &population.ranked(0) : population.best();
    cma_es_.emplace(space_, CmaOptions{.sigma = deviation, .start = best == nullptr ? std::vector<double>{} : best->values}, seed_);
  }
  return cma_es_->ask(population, random);
}

void Hybrid::tell(const Individual& individual) {
  if (individual.tag.run == of_no_run) return;
  if (individual.tag.run < of_no_run) {
    Individual told = individual;
    told.tag.run = marked(individual.tag.run);
    region_.tell(told);
  } else if (cma_es_) {
    cma_es_->tell(individual);
  }
}

}  // namespace tw::search
