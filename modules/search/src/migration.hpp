// SPDX-License-Identifier: Apache-2.0
// Which individual migrates, and where to. Pure.
#pragma once
#include <optional>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/population.hpp>
#include <tw/search/options.hpp>

namespace tw::search {

/// The individuals for which a worker is responsible, ranked among each other.
class Residents {
 public:
  bool empty() const noexcept { return population_.active() == 0; }
  size_t size() const noexcept { return population_.active(); }
  void add(const Individual& individual) {
    if (!population_.add(individual)) population_.activate(individual.trial);
  }
  void remove(int64_t trial) { population_.deactivate(trial); }
  /// The individual to send or to replace. With several objectives, 16 are drawn at random: no other one of them dominates the best, and the worst
  /// dominates none of them.
  /// @param random used for these draws, and for `uniform`
  const Individual& chosen(Pick choice, CounterRng& random) const;

 private:
  bool has_fronts() const noexcept { return !population_.active_at(0).objectives.empty(); }
  const Individual& any(CounterRng& random) const { return population_.active_at(index_below(random, population_.active())); }
  const Individual& drawn(Pick choice, CounterRng& random) const;

  Population population_;
};

/// The island that receives an emigrant of `island`; none if no individual migrates now. @param random random numbers for this decision
std::optional<int> destination(const MigrationOptions& options, int island, int islands, CounterRng& random);

}  // namespace tw::search
