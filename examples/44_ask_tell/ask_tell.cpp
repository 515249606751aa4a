// SPDX-License-Identifier: Apache-2.0
// Ask and tell without MPI: a propagator proposes configurations, you evaluate them wherever you like, and return the losses to it.
//
// Build:   cmake --build build/release --target 44_ask_tell
// Run:     build/release/bin/44_ask_tell
// Expect:  losses that fall below 1e-6
#include <cmath>
#include <iostream>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/population.hpp>

int main() {
  using namespace tw::search;
  const Space space{real("dt", 1e-4, 1, log_scale), real("damping", 0, 1)};
  CmaEs propagator(space, {}, /*seed=*/1);
  Population population;
  for (int64_t trial = 0; trial < 300; ++trial) {
    tw::CounterRng random(/*seed=*/1, static_cast<uint64_t>(trial));
    const Proposal proposal = propagator.ask(population, random);

    const Configuration c(space, proposal.values);  // your simulation goes here
    const double loss = std::pow(std::log10(c.real("dt")) + 2, 2) + std::pow(c.real("damping") - 0.3, 2);

    const Individual ended{.trial = trial, .values = proposal.values, .loss = loss, .state = TrialState::complete, .tag = proposal.tag};
    population.add(ended);
    propagator.tell(ended);
    if (trial % 100 == 99) std::cout << "after " << trial + 1 << ": " << population.best()->loss << '\n';
  }
  std::cout << "best: " << Configuration(space, population.best()->values).describe() << '\n';
}
