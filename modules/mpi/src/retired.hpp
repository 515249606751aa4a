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
  std::vector<std::shared_ptr<Transfer>> announcements = {};  ///< may still be in flight
  std::vector<std::shared_ptr<void>> kept = {};               ///< memory of operations that failed
};

/// Which of `mine` can be freed: all members are in `comm` and have dropped it, and every message in flight can be received here. Receives these
/// messages. Collective over `comm`; the result is the same on all members.
std::vector<bool> find_freeable(const Communicator& comm, const std::vector<Retired>& mine);

/// Whether a communicator of one member can be freed.
bool is_freeable_alone(const Retired& retired);

/// Keeps the memory of failed operations and announcements until the process ends: MPI may still use it.
void keep_for_ever(Retired& retired);

}  // namespace tw::mpi
