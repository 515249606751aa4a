// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <tw/base/concat.hpp>

namespace tw::mpi {
namespace {

struct Message {
  enum class Kind : int32_t { revoked, waiting };
  Kind kind = Kind::revoked;
  Call call;
  uint64_t number = 0;
  std::array<char, 256> reason{};
};

/// A message to all other members. Nothing waits for its completion: a member may no longer listen.
class Announcement : public Transfer {
 public:
  Announcement(const CommunicatorState& comm, const Message& message) : message_(message) {
    for (int rank = 0; rank < comm.size; ++rank) {
      if (rank == comm.rank) continue;
      requests_.emplace_back();
      check(MPI_Isend(&message_, sizeof message_, MPI_BYTE, rank, control_tag, comm.handle, &requests_.back()), "MPI_Isend", comm.name);
    }
  }

  bool advance() override {
    int done = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  }

 private:
  Message message_;
  std::vector<MPI_Request> requests_;
};

void tell(CommunicatorState& comm, const Message& message) {
  ++comm.traffic.announced;
  std::erase_if(comm.announcements, [](const auto& earlier) { return earlier->advance(); });
  comm.announcements.push_back(std::make_shared<Announcement>(comm, message));
}

void receive(CommunicatorState& comm, const Message& message, int from) {
  if (message.kind == Message::Kind::waiting) {
    comm.notes[from] = {.calls = message.number, .finished = message.number == 0 ? 0 : message.number - 1, .call = message.call};
  } else if (!comm.revoked) {
    comm.mark_revoked(concat("rank ", from, " revoked it: ", message.reason.data()));
  }
}

}  // namespace

void listen(CommunicatorState& comm) {
  for (CommunicatorState* state = &comm; state != nullptr; state = state->parent.get()) {
    while (true) {
      int arrived = 0;
      MPI_Status status;
      check(MPI_Iprobe(MPI_ANY_SOURCE, control_tag, state->handle, &arrived, &status), "MPI_Iprobe", state->name);
      if (arrived == 0) break;
      Message message;
      check(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, control_tag, state->handle, MPI_STATUS_IGNORE), "MPI_Recv", state->name);
      ++state->traffic.received_announcements;
      receive(*state, message, status.MPI_SOURCE);
    }
  }
}

void drop_announcements(MPI_Comm comm, int64_t count) {
  Message message;
  for (; count > 0; --count) {
    check(MPI_Recv(&message, sizeof message, MPI_BYTE, MPI_ANY_SOURCE, control_tag, comm, MPI_STATUS_IGNORE), "MPI_Recv",
          "a communicator that was dropped");
  }
}

void tell_revoked(CommunicatorState& comm) {
  Message message;
  const size_t length = std::min(comm.revoked_because.size(), message.reason.size() - 1);
  std::memcpy(message.reason.data(), comm.revoked_because.data(), length);
  tell(comm, message);
}

void tell_waiting(CommunicatorState& comm, const Call& call, uint64_t number) {
  Message message;
  message.kind = Message::Kind::waiting;
  message.call = call;
  message.number = number;
  tell(comm, message);
}

}  // namespace tw::mpi
