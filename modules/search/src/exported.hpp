// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <set>
#include <tw/search/ledger.hpp>

namespace tw::search {

/// The number of ranks of the trial's worker.
int ranks_of(const Ledger& ledger, const LedgerEntry& entry);

/// Trials that no other one dominates, of equal ones the first. With one objective: none.
std::set<int64_t> trials_on_front(const Ledger& ledger);

/// The most constraints with values that a trial has: "constraint.1" and so on.
size_t constraints_of(const Ledger& ledger);

}  // namespace tw::search
