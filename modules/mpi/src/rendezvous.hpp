// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <tw/mpi/rank.hpp>
#include <vector>

#include "runtime.hpp"

namespace tw::mpi {

/// Returns when all `members` of `comm` have called it with the same list and none can give up any more. `comm` may be revoked. Collective over
/// `members`. @throws Error if that takes longer than `timeout`; they may then try again, with the same list or another.
void rendezvous(const std::shared_ptr<CommunicatorState>& comm, const std::vector<Rank>& members, std::chrono::milliseconds timeout);

}  // namespace tw::mpi
