// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

#include "traffic.hpp"

namespace tw::mpi {

/// An MPI communicator that this rank has dropped.
struct Retired {
  MPI_Comm comm = MPI_COMM_NULL;
  uint64_t age = 0;
  uint64_t key = 0;                 ///< the same on all members
  bool may_hold_leftovers = false;  ///< see CommunicatorState
  Traffic traffic = {};
  std::vector<std::shared_ptr<Transfer>> announcements = {};  ///< that may not have left
  std::vector<std::shared_ptr<void>> kept = {};               ///< memory of operations that failed
};

/// Which of `mine` can be freed: all members are in `comm` and have dropped it, and no message is in flight that cannot be received here. Those that
/// can are received. Collective over `comm`; the same on all members.
std::vector<bool> find_freeable(const Communicator& comm, const std::vector<Retired>& mine);

/// Whether one of a single member can be freed.
bool is_freeable_alone(const Retired& retired);

/// What is kept for failed operations and announcements stays until the process ends: MPI may still use it.
void keep_for_ever(Retired& retired);

}  // namespace tw::mpi
