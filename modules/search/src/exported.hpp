// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <set>
#include <tw/search/ledger.hpp>

namespace tw::search {

/// The number of ranks of the trial's worker.
int ranks_of(const Ledger& ledger, const LedgerEntry& entry);

/// The trials that no other trial dominates; of equal ones, the first. Empty with one objective.
std::set<int64_t> trials_on_front(const Ledger& ledger);

/// The maximum number of constraint values of a trial, for columns "constraint.1" and so on.
size_t constraints_of(const Ledger& ledger);

}  // namespace tw::search
