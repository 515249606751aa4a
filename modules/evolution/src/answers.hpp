// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/evolution/individual.hpp>
#include <tw/evolution/space.hpp>

namespace tw::search {

/// Whether `individual` is what became of `proposal`: equal tags, and equal values, by which those of other workers with the same tag differ.
inline bool answers(const Individual& individual, const Proposal& proposal) {
  return individual.tag == proposal.tag && same_values(individual.values, proposal.values);
}

}  // namespace tw::search
