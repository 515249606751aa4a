// SPDX-License-Identifier: Apache-2.0
// Functions on communicators for higher modules, not for users.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::mpi {

class Board;

/// Another handle to the same communicator, for operations that outlive the user's handle.
inline Communicator share(const Communicator& comm) { return Communicator(comm.state()); }
/// A non-owning handle for transfers, whose operation already owns the communicator. The communicator keeps failed transfers, so it would never be
/// freed if they owned it.
inline Communicator borrow(const Communicator& comm) {
  return Communicator(std::shared_ptr<CommunicatorState>(std::shared_ptr<void>(), comm.state().get()));
}
/// @throws ContractError unless `rank` is a rank of `comm`.
void expect_rank(const Communicator& comm, Rank rank);
/// @throws ContractError if the calling thread may not use MPI, see ThreadLevel; NotInitialisedError if the Environment of `comm` no longer exists.
void expect_own_thread(const Communicator& comm);
/// Data that a higher module attaches to `comm`, kept as long as the communicator. Initially null.
std::shared_ptr<void>& attachment(const Communicator& comm) noexcept;
/// The attachments of the communicators from which `comm` was derived, the nearest first. Omits null ones.
std::vector<std::shared_ptr<void>> attachments_above(const Communicator& comm);
/// Runs `change` while no thread advances any operation. Use it to change data that transfers read, since a progress thread may be driving them.
void with_engine_paused(const Communicator& comm, const std::function<void()>& change);
/// Sets this rank's activity on `comm`, such as "trial 7". This rank's watchdog adds the activity to its messages about waits on `comm` and on
/// communicators derived from `comm`. Empty: none. Local.
void set_activity(const Communicator& comm, const std::string& activity);
/// Sets the board where the engine records this rank's calls for the watchdogs of other ranks. Call it in with_engine_paused(), or in a transfer's
/// advance().
void set_board(const Communicator& comm, std::shared_ptr<Board> board);

/// The address of the MPI_Comm, so that this header does not need <mpi.h>.
const void* native(const Communicator& comm) noexcept;
/// An independent copy of the MPI_Comm at `mpi_comm`. Collective over it.
Communicator duplicate_native(const void* mpi_comm);

}  // namespace tw::mpi
