// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>

namespace tw::mpi {

/// What this rank has begun and ended on one communicator. By the counts of all its members they know whether a message may still be on its way: MPIs
/// give the number of a freed communicator to the next one, where that message would arrive.
struct Traffic {
  int64_t open = 0;         ///< operations that have not ended well
  int64_t collectives = 0;  ///< of MPI, begun
  int64_t sent = 0;         ///< messages
  int64_t received = 0;
  int64_t announced = 0;  ///< to every other member: see control.hpp
  int64_t heard = 0;      ///< announcements of others
};

/// The same, counted by several threads.
struct TrafficCounters {
  std::atomic<int64_t> open = 0;
  std::atomic<int64_t> collectives = 0;
  std::atomic<int64_t> sent = 0;
  std::atomic<int64_t> received = 0;
  std::atomic<int64_t> announced = 0;
  std::atomic<int64_t> heard = 0;

  Traffic now() const noexcept { return {open, collectives, sent, received, announced, heard}; }
};

}  // namespace tw::mpi
