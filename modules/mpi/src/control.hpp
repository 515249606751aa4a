// SPDX-License-Identifier: Apache-2.0
// Small messages between members of a communicator, sent outside any call: "I revoke it", "I wait for this". They use a separate tag and are read by
// ranks that wait.
#pragma once
#include "runtime.hpp"

namespace tw::mpi {

/// Reads the messages that have arrived for `comm` and its ancestors; never blocks.
void listen(CommunicatorState& comm);
/// Informs the other members that `comm` is revoked, and why.
void tell_revoked(CommunicatorState& comm);
/// Receives and drops `count` announcements sent on `comm`, on which nothing else listens.
void drop_announcements(MPI_Comm comm, int64_t count);
/// Informs the other members what this rank waits for. @param number of the collective call; 0: a send or receive
void tell_waiting(CommunicatorState& comm, const Call& call, uint64_t number);

}  // namespace tw::mpi
