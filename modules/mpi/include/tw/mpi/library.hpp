// SPDX-License-Identifier: Apache-2.0
// What higher modules need of a communicator, and users do not.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::mpi {

class Board;

/// Another handle to the same communicator, for operations that outlive the user's.
inline Communicator share(const Communicator& comm) { return Communicator(comm.state()); }
/// The same for transfers, whose operation has the communicator: it keeps nothing alive. One that failed is kept by the communicator itself.
inline Communicator borrow(const Communicator& comm) {
  return Communicator(std::shared_ptr<CommunicatorState>(std::shared_ptr<void>(), comm.state().get()));
}
/// @throws ContractError unless `rank` is a rank of `comm`.
void expect_rank(const Communicator& comm, Rank rank);
/// @throws ContractError where MPI does not let the calling thread communicate; see ThreadLevel.
void expect_own_thread(const Communicator& comm);
/// What a floor above keeps for this communicator, for as long as it lives. Null at first.
std::shared_ptr<void>& attachment(const Communicator& comm) noexcept;
/// Those of the communicators that `comm` was made of, the nearest first. Null ones are left out.
std::vector<std::shared_ptr<void>> attachments_above(const Communicator& comm);
/// Runs `change` while no operation of `comm` is advanced: for what transfers read, which a thread may drive.
void with_engine_paused(const Communicator& comm, const std::function<void()>& change);
/// Sets what the ranks of `comm` are doing, such as "trial 7": the watchdog adds it to its messages about waits on `comm` and on communicators made
/// from it. Empty: nothing is added. Local.
void set_activity(const Communicator& comm, const std::string& occasion);
/// Where the engine records the calls of this rank, for the watchdogs of the others. Called while no operation is advanced, or by one.
void set_board(const Communicator& comm, std::shared_ptr<Board> board);

/// The MPI_Comm, by its address, so that this header does without <mpi.h>.
const void* native(const Communicator& comm) noexcept;
/// An independent copy of the MPI_Comm at `mpi_comm`. Collective over it.
Communicator duplicate_native(const void* mpi_comm);

}  // namespace tw::mpi
