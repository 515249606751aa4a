// SPDX-License-Identifier: Apache-2.0
#include "requests.hpp"

#include <tw/mpi/error.hpp>

namespace tw::mpi {

bool is_done(MPI_Request& request, const CommunicatorState& comm) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", comm.name);
  return done != 0;
}

std::optional<int> receive_from_anyone(const CommunicatorState& comm, int tag, std::vector<std::byte>& bytes, MPI_Request& request) {
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(MPI_ANY_SOURCE, tag, comm.handle, &found, &message, &status), "MPI_Improbe", comm.name);
  if (found == 0) return std::nullopt;
  int count = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count", comm.name);
  bytes.resize(static_cast<size_t>(count));
  check(MPI_Imrecv(bytes.data(), count, MPI_BYTE, &message, &request), "MPI_Imrecv", comm.name);
  return status.MPI_SOURCE;
}

void expect_not_revoked(const CommunicatorState& comm, const char* what) {
  if (const auto* revoked = comm.revoked_ancestor()) throw RevokedError(revoked->name, what, revoked->revoked_because);
}

}  // namespace tw::mpi
