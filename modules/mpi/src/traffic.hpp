// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>

namespace tw::mpi {

/// Counts of what this rank has started and ended on one communicator. The counts of all members show whether a message may still be in flight. MPIs
/// reuse the number of a freed communicator, so such a message would arrive in the new one.
struct Traffic {
  int64_t open = 0;         ///< operations that have not ended successfully
  int64_t collectives = 0;  ///< MPI collectives started
  int64_t sent = 0;         ///< messages
  int64_t received = 0;
  int64_t announced = 0;               ///< announcements to every other member: see control.hpp
  int64_t received_announcements = 0;  ///< announcements received from others
};

/// The same counts, updated by several threads.
struct TrafficCounters {
  std::atomic<int64_t> open = 0;
  std::atomic<int64_t> collectives = 0;
  std::atomic<int64_t> sent = 0;
  std::atomic<int64_t> received = 0;
  std::atomic<int64_t> announced = 0;
  std::atomic<int64_t> received_announcements = 0;

  Traffic now() const noexcept { return {open, collectives, sent, received, announced, received_announcements}; }
};

}  // namespace tw::mpi
