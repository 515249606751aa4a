// SPDX-License-Identifier: Apache-2.0
// Small messages between members of a communicator that no call announces: "I revoke it", "this is what I wait for". They travel beside the
// collectives, on a tag of their own, and are read by ranks that wait.
#pragma once
#include "runtime.hpp"

namespace tw::mpi {

/// Reads what has arrived for `comm` and those it was made from; never waits.
void listen(CommunicatorState& comm);
/// Tells the other members that `comm` is revoked, and why.
void tell_revoked(CommunicatorState& comm);
/// Receives and drops `count` announcements that were sent on `comm`. Nobody else listens there.
void drop_announcements(MPI_Comm comm, int64_t count);
/// Tells the other members what this rank waits for. @param number of the collective call; 0: a send or receive
void tell_waiting(CommunicatorState& comm, const Call& call, uint64_t number);

}  // namespace tw::mpi
