// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <string_view>

#include "runtime.hpp"

namespace tw::mpi {

/// Tests `request`, which may be MPI_REQUEST_NULL.
bool is_done(MPI_Request& request, const CommunicatorState& comm);

/// @param what the operation that would start. @throws RevokedError if `comm` is revoked
void expect_not_revoked(const CommunicatorState& comm, std::string_view what);

}  // namespace tw::mpi
