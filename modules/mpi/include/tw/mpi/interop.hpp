// SPDX-License-Identifier: Apache-2.0
// For programs with their own MPI communicators. Link tw::mpi_interop.
#pragma once
#include <mpi.h>

#include <tw/mpi/communicator.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/library.hpp>

namespace tw {

template <>
inline Communicator Communicator::duplicate_of<MPI_Comm>(MPI_Comm comm) {
  return mpi::duplicate_native(&comm);
}

/// The underlying MPI communicator of `comm`, for your own MPI calls; do not free it. MPI calls on it return error codes (MPI_ERRORS_RETURN), except
/// on the world of an adopted MPI, whose error handler is not changed.
inline MPI_Comm native_handle(const Communicator& comm) { return *static_cast<const MPI_Comm*>(mpi::native(comm)); }

}  // namespace tw
