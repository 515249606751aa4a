// SPDX-License-Identifier: Apache-2.0
#include "requests.hpp"

#include <tw/mpi/error.hpp>

namespace tw::mpi {

bool is_done(MPI_Request& request, const CommunicatorState& comm) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", comm.name);
  return done != 0;
}

void expect_not_revoked(const CommunicatorState& comm, std::string_view what) {
  if (const auto* revoked = comm.revoked_ancestor()) throw RevokedError(revoked->name, std::string(what), revoked->revoked_because);
}

}  // namespace tw::mpi
