// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include "runtime.hpp"

namespace tw::mpi {

/// Tests `request`, which need not be one.
bool is_done(MPI_Request& request, const CommunicatorState& comm);

/// @param what of the operation that is begun. @throws RevokedError where `comm` is revoked
void expect_not_revoked(const CommunicatorState& comm, const char* what);

}  // namespace tw::mpi
