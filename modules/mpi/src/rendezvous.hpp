// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <tw/mpi/rank.hpp>
#include <vector>

#include "runtime.hpp"

namespace tw::mpi {

/// Returns when all `members` of `comm`, which may be revoked, have come here with the same list, and none of them will give up any more. Collective
/// over them. @throws Error when that takes longer than `timeout`; then they may try again, with the same list or another.
void rendezvous(const std::shared_ptr<CommunicatorState>& comm, const std::vector<Rank>& members, std::chrono::milliseconds timeout);

}  // namespace tw::mpi
