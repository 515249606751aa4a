// SPDX-License-Identifier: Apache-2.0
// A tensor is sent as two messages: a label that describes it, then the data. MPI does not compare types, and MPIs differ in what they do with a
// message too long for its receiver.
#pragma once
#include <memory>
#include <span>
#include <tw/mpi/collectives.hpp>

namespace tw::mpi {

/// Sends all of `sends` and fills all of `receives`. Ends when all have ended, and then throws the first failure.
/// @param collective the collective they are sent in; the receiver must name the same one
std::unique_ptr<Transfer> labelled_transfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends,
                                            std::span<const PeerBuffer> receives, int tag);

}  // namespace tw::mpi
