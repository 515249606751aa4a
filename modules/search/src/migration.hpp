// SPDX-License-Identifier: Apache-2.0
// Who goes where. Pure.
#pragma once
#include <optional>
#include <tw/base/random.hpp>
#include <tw/evolution/population.hpp>
#include <tw/search/options.hpp>

namespace tw::search {

/// One of the individuals that a worker answers for: it knows them by their ranks among each other.
class Wards {
 public:
  bool empty() const noexcept { return population_.active() == 0; }
  size_t size() const noexcept { return population_.active(); }
  void add(const Individual& individual) {
    if (!population_.add(individual)) population_.activate(individual.trial);
  }
  void remove(int64_t trial) { population_.deactivate(trial); }
  /// @param random used for `uniform` alone
  const Individual& chosen(Pick choice, CounterRng& random) const;

 private:
  Population population_;
};

/// The island that an emigrant of `island` goes to, if one goes now. @param random of this decision
std::optional<int> destination(const MigrationOptions& options, int island, int islands, CounterRng& random);

}  // namespace tw::search
