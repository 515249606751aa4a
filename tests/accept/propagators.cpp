// SPDX-License-Identifier: Apache-2.0
#include "propagators.hpp"

#include <algorithm>
#include <deque>
#include <tw/base/contract.hpp>
#include <tw/evolution/named_propagators.hpp>

namespace tw::testing {

using namespace search;

std::unique_ptr<Propagator> propagator_named(const std::string& name, const Space& space, int64_t evaluations, uint64_t seed) {
  const auto all = named_propagators();
  const auto found = std::ranges::find(all, name, &NamedPropagator::name);
  TW_EXPECTS(found != all.end(), "there is no propagator '", name, "'");
  return found->make(space, evaluations, seed, 0, 1);
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
