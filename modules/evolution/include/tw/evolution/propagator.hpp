// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/base/random.hpp>
#include <tw/evolution/individual.hpp>
#include <tw/evolution/population.hpp>
#include <tw/evolution/space.hpp>

namespace tw::search {

/// Proposes configurations. A proposal is a function of the results received, in their order, of the population, and of the random numbers: equal
/// inputs lead to equal proposals.
///
/// Several may search together: each receives the results of all, and may use those of others as its own.
class Propagator {
 public:
  virtual ~Propagator() = default;

  /// What to evaluate next. Calls need not alternate with tell(): many proposals may be in flight.
  /// @param population holds all individuals that tell() has received. @param random of this trial alone
  virtual Proposal ask(const Population& population, CounterRng& random) = 0;
  /// An individual that has ended, here or elsewhere. Once for each, also for those that failed.
  virtual void tell(const Individual& individual) { static_cast<void>(individual); }
};

}  // namespace tw::search
