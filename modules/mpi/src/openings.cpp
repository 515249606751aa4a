// SPDX-License-Identifier: Apache-2.0
#include "openings.hpp"

#include <tw/mpi/error.hpp>

#include "conversation.hpp"

namespace tw::mpi {

Openings::~Openings() {
  for (Receive& each : under_way_) {
    if (each.request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&each.request);
    MPI_Wait(&each.request, MPI_STATUS_IGNORE);
  }
}

std::optional<Openings::Opening> Openings::next() {
  Receive& oldest = under_way_[oldest_];
  if (oldest.request == MPI_REQUEST_NULL) {  // the first time
    for (Receive& each : under_way_) begin(each);
  }
  int done = 0;
  MPI_Status status;
  check(MPI_Test(&oldest.request, &done, &status), "MPI_Test", comm_.name);
  if (done == 0) return std::nullopt;
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", comm_.name);
  Opening opening{status.MPI_SOURCE, static_cast<size_t>(bytes), std::move(oldest.memory)};
  begin(oldest);
  oldest_ = (oldest_ + 1) % under_way_.size();
  return opening;
}

void Openings::begin(Receive& receive) {
  if (spare_.empty()) {
    receive.memory = std::make_unique<Memory>();
  } else {
    receive.memory = std::move(spare_.back());
    spare_.pop_back();
  }
  check(MPI_Irecv(receive.memory->data(), static_cast<int>(receive.memory->size()), MPI_BYTE, MPI_ANY_SOURCE, conversation::opening_tag, comm_.handle,
                  &receive.request),
        "MPI_Irecv", comm_.name);
}

}  // namespace tw::mpi
