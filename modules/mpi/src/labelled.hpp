// SPDX-License-Identifier: Apache-2.0
// Messages of tensors have a label in front of them, a message of its own, which says what they hold: MPI does not compare types, and what becomes of
// a message that is too long for its receiver differs between MPIs.
#pragma once
#include <memory>
#include <span>
#include <tw/mpi/collectives.hpp>

namespace tw::mpi {

/// Sends all of `sends` and fills all of `receives`; ends when all have ended, and throws the first failure then.
/// @param collective what they are sent in, which must be what they are received in
std::unique_ptr<Transfer> labelled_transfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends,
                                            std::span<const PeerBuffer> receives, int tag);

}  // namespace tw::mpi
