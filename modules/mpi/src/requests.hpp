// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime.hpp"

namespace tw::mpi {

/// Tests `request`, which need not be one.
bool is_done(MPI_Request& request, const CommunicatorState& comm);

/// Where a message of any rank under `tag` has come, of any length, begins to receive it into `bytes`. @return from whom
std::optional<int> receive_from_anyone(const CommunicatorState& comm, int tag, std::vector<std::byte>& bytes, MPI_Request& request);

/// @param what of the operation that is begun. @throws RevokedError where `comm` is revoked
void expect_not_revoked(const CommunicatorState& comm, const char* what);

}  // namespace tw::mpi
