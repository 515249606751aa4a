// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/base/random.hpp>
#include <tw/evolution/individual.hpp>
#include <tw/evolution/population.hpp>
#include <tw/evolution/space.hpp>

namespace tw::search {

/// Proposes configurations. A proposal depends only on the results received so far, their order, the population and the random numbers: equal inputs
/// lead to equal proposals.
///
/// Several propagators may search together: each receives the results of all, and may use the others' results like its own.
class Propagator {
 public:
  virtual ~Propagator() = default;

  /// Returns the next configuration to evaluate. Calls need not alternate with tell(): many proposals may be in flight.
  /// @param population holds all individuals that tell() has received. @param random this trial's own random numbers
  virtual Proposal ask(const Population& population, CounterRng& random) = 0;
  /// Receives an individual that has ended, on this worker or another. Called once for each individual, including failed ones.
  virtual void tell(const Individual& individual) { static_cast<void>(individual); }
};

}  // namespace tw::search
