// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/shared_memory/plan.hpp>

namespace tw::tensor_parallel {

/// The indices of rank `rank` out of `size`.
inline shared_memory::Range part_of(const Communicator& comm, int rank, int64_t size) {
  return shared_memory::part_of({.begin = 0, .end = size}, rank, comm.size(), 1);
}

/// The indices of this rank.
inline shared_memory::Range own_part(const Communicator& comm, int64_t size) { return part_of(comm, comm.rank(), size); }

}  // namespace tw::tensor_parallel
