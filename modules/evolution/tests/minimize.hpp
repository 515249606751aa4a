// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <tw/evolution/propagator.hpp>

#include "test_functions.hpp"

namespace tw::search {

/// The result of a proposal.
inline Individual evaluated(const Proposal& proposal, double loss, int64_t trial = 0) {
  return {.trial = trial, .values = proposal.values, .loss = loss, .state = TrialState::complete, .tag = proposal.tag};
}

inline Individual failed(const Proposal& proposal, int64_t trial = 0) {
  return {.trial = trial, .values = proposal.values, .state = TrialState::failed, .tag = proposal.tag};
}

/// Losses in the order of the proposals, with `in_flight` trials in flight at any time, which end in the order in which they began.
inline std::vector<double> losses_of(Propagator& propagator, const TestFunction& function, int64_t evaluations, size_t in_flight = 1,
                                     uint64_t seed = 1) {
  Population population;
  std::deque<Individual> waiting;
  std::vector<double> losses;
  const auto end_one = [&] {
    population.add(waiting.front());
    propagator.tell(waiting.front());
    waiting.pop_front();
  };
  for (int64_t trial = 0; trial < evaluations; ++trial) {
    CounterRng random(seed, static_cast<uint64_t>(trial));
    const Proposal proposal = propagator.ask(population, random);
    losses.push_back(function.value(proposal.values));
    waiting.push_back(evaluated(proposal, losses.back(), trial));
    if (waiting.size() == in_flight) end_one();
  }
  while (!waiting.empty()) end_one();
  return losses;
}

}  // namespace tw::search
