// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/evolution/individual.hpp>
#include <tw/evolution/space.hpp>

namespace tw::search {

/// Whether `individual` is the result of `proposal`: tags and values are equal. Values distinguish proposals of other workers with the same tag.
inline bool answers(const Individual& individual, const Proposal& proposal) {
  return individual.tag == proposal.tag && same_values(individual.values, proposal.values);
}

}  // namespace tw::search
