// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <tw/evolution/individual.hpp>

namespace tw::search {

/// Whether `individual` is what became of `proposal`: equal tags, and equal values, by which those of other workers with the same tag differ.
inline bool answers(const Individual& individual, const Proposal& proposal) {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  return individual.tag == proposal.tag && std::ranges::equal(individual.values, proposal.values, same);
}

}  // namespace tw::search
