// SPDX-License-Identifier: Apache-2.0
// An MPI that accepts pointers to the simulated devices: intercepts calls through MPI's profiling interface and translates the addresses.
#include <mpi.h>

#include "memory.hpp"

namespace {

void* seen(const void* memory) { return tw::testing::accelerator::seen_by_mpi(const_cast<void*>(memory)); }

}  // namespace

extern "C" {

int MPI_Isend(const void* memory, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Isend(seen(memory), count, type, to, tag, comm, request);
}

int MPI_Irecv(void* memory, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Irecv(seen(memory), count, type, from, tag, comm, request);
}

int MPI_Ibcast(void* memory, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Ibcast(seen(memory), count, type, root, comm, request);
}

int MPI_Iallgatherv(const void* mine, int count, MPI_Datatype type, void* all, const int counts[], const int offsets[], MPI_Datatype all_type,
                    MPI_Comm comm, MPI_Request* request) {
  return PMPI_Iallgatherv(mine == MPI_IN_PLACE ? mine : seen(mine), count, type, seen(all), counts, offsets, all_type, comm, request);
}

int MPI_Ialltoall(const void* input, int count, MPI_Datatype type, void* output, int received, MPI_Datatype received_type, MPI_Comm comm,
                  MPI_Request* request) {
  return PMPI_Ialltoall(seen(input), count, type, seen(output), received, received_type, comm, request);
}

}  // extern "C"
