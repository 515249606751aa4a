// SPDX-License-Identifier: Apache-2.0
#include "blame.hpp"

#include <algorithm>

namespace tw::search {

std::vector<Interrupted> judged(std::vector<Interrupted> interrupted, const std::set<int>& asked) {
  const auto is_suspect = [&](const Interrupted& each) { return each.was_in_flight && !asked.contains(each.worker); };
  const Blame blame = std::ranges::count_if(interrupted, is_suspect) == 1 ? Blame::sole : Blame::shared;
  for (Interrupted& each : interrupted) {
    if (!each.was_in_flight) continue;
    each.blame = is_suspect(each) ? blame : Blame::none;
    if (each.blame != Blame::none) ++each.losses;
    if (each.blame == Blame::sole) ++each.sole_losses;
  }
  return interrupted;
}

bool is_given_up(const Interrupted& interrupted, int attempts) { return interrupted.sole_losses >= attempts; }

Turns::Turns(const std::vector<Interrupted>& interrupted, int attempts) {
  const auto take_those = [&](bool alone) {
    for (const Interrupted& each : interrupted) {
      const bool is_suspect = each.losses > 0 && !is_given_up(each, attempts);
      if (is_suspect && alone == (each.losses >= attempts)) trials_.push_back(each.individual.trial);
    }
  };
  take_those(true);
  alone_ = trials_.size();
  take_those(false);
}

bool Turns::allows(int64_t trial) const { return std::ranges::find(trials_, trial) == trials_.end() ? allows_others() : has(trial); }

void Turns::advance_to(int64_t over) { now_ = std::max(now_, static_cast<size_t>(over)); }

}  // namespace tw::search
