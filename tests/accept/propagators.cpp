// SPDX-License-Identifier: Apache-2.0
#include "propagators.hpp"

#include <deque>
#include <tw/base/contract.hpp>
#include <tw/evolution/automatic.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/gaussian_process.hpp>
#include <tw/evolution/hybrid.hpp>
#include <tw/evolution/l_shade.hpp>
#include <tw/evolution/nelder_mead.hpp>
#include <tw/evolution/quadratic_trust_region.hpp>
#include <tw/evolution/tpe.hpp>

namespace tw::testing {

using namespace search;

std::unique_ptr<Propagator> propagator_named(const std::string& name, const Space& space, int64_t evaluations, uint64_t seed) {
  if (name == "automatic") return automatic(space, evaluations, seed, 0, 1);
  if (name == "cma_es") return std::make_unique<CmaEs>(space, CmaOptions{}, seed);
  if (name == "gaussian_process") return std::make_unique<GaussianProcess>(space, GaussianProcessOptions{}, seed);
  if (name == "genetic") return std::make_unique<Breeder>(space, genetic_within(evaluations));
  if (name == "hybrid") return std::make_unique<Hybrid>(space, seed);
  if (name == "l_shade") return std::make_unique<LShade>(space, LShadeOptions{.evaluations = evaluations});
  if (name == "nelder_mead") return std::make_unique<NelderMead>(space, NelderMeadOptions{}, seed);
  if (name == "random") return std::make_unique<Breeder>(space, uniform_child());
  if (name == "tpe") return std::make_unique<Tpe>(space);
  if (name == "trust_region") return std::make_unique<QuadraticTrustRegion>(space, QuadraticTrustRegionOptions{}, seed);
  TW_EXPECTS(false, "there is no propagator '", name, "'");
  return nullptr;
}

Population searched(Propagator& propagator, const std::function<double(const std::vector<double>&, int64_t)>& loss, const SearchSettings& settings) {
  Population population;
  std::deque<Individual> running;
  const auto end_one = [&] {
    population.add(running.front());
    propagator.tell(running.front());
    running.pop_front();
  };
  for (int64_t trial = 0; trial < settings.evaluations; ++trial) {
    CounterRng random(settings.seed, static_cast<uint64_t>(trial));
    Proposal proposal = propagator.ask(population, random);
    const double value = loss(proposal.values, trial);
    running.push_back({.trial = trial, .values = std::move(proposal.values), .loss = value, .state = TrialState::complete, .tag = proposal.tag});
    if (running.size() == settings.in_flight) end_one();
  }
  while (!running.empty()) end_one();
  return population;
}

}  // namespace tw::testing
