// SPDX-License-Identifier: Apache-2.0
// Who goes where. Pure.
#pragma once
#include <optional>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/population.hpp>
#include <tw/search/options.hpp>

namespace tw::search {

/// One of the individuals that a worker answers for: it knows them by their ranks among each other.
class Residents {
 public:
  bool empty() const noexcept { return population_.active() == 0; }
  size_t size() const noexcept { return population_.active(); }
  void add(const Individual& individual) {
    if (!population_.add(individual)) population_.activate(individual.trial);
  }
  void remove(int64_t trial) { population_.deactivate(trial); }
  /// With several objectives, the best one is one of those that none of 16 others, drawn at random, dominates; the worst one dominates none of them.
  /// @param random used for that, and for `uniform`
  const Individual& chosen(Pick choice, CounterRng& random) const;

 private:
  bool has_fronts() const noexcept { return !population_.active_at(0).objectives.empty(); }
  const Individual& any(CounterRng& random) const { return population_.active_at(index_below(random, population_.active())); }
  const Individual& drawn(Pick choice, CounterRng& random) const;

  Population population_;
};

/// The island that an emigrant of `island` goes to, if one goes now. @param random of this decision
std::optional<int> destination(const MigrationOptions& options, int island, int islands, CounterRng& random);

}  // namespace tw::search
