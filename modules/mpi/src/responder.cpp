// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/responder.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <tw/mpi/engine.hpp>

#include "runtime.hpp"

namespace tw::mpi {
namespace {

bool is_done(MPI_Request& request, const std::string& comm) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", comm);
  return done != 0;
}

}  // namespace

class Responder::Listening : public Transfer {
 public:
  Listening(const Communicator& comm, Handler handler, std::shared_ptr<Control> control)
      : comm_(*comm.state()), handler_(std::move(handler)), control_(std::move(control)) {}

  bool advance() override {
    if (!control_->closed) hear_openings();
    for (auto client = clients_.begin(); client != clients_.end();) {
      auto& [rank, held] = *client;
      while (!held.empty() && go_on(rank, held.front())) {
        held.pop_front();
        ++control_->ended;
      }
      client = held.empty() ? clients_.erase(client) : std::next(client);
    }
    return control_->closed && clients_.empty();
  }

 private:
  struct Held {
    std::vector<std::byte> opening = {};  // until it is here
    bool is_open = false;
    Conversation conversation = {};
    MPI_Request request = MPI_REQUEST_NULL;  // of what is under way: the opening, a piece
    std::vector<std::byte> piece = {};
    bool gives = false;
  };

  void hear_openings() {
    while (true) {
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      check(MPI_Improbe(MPI_ANY_SOURCE, opening_tag, comm_.handle, &found, &message, &status), "MPI_Improbe", comm_.name);
      if (found == 0) return;
      int bytes = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", comm_.name);
      Held& held = clients_[status.MPI_SOURCE].emplace_back();
      held.opening.resize(static_cast<size_t>(bytes));
      check(MPI_Imrecv(held.opening.data(), bytes, MPI_BYTE, &message, &held.request), "MPI_Imrecv", comm_.name);
    }
  }

  /// Does what can be done without waiting; true once the conversation has ended.
  bool go_on(int client, Held& held) {
    while (true) {
      if (held.request != MPI_REQUEST_NULL && !is_done(held.request, comm_.name)) return false;
      Conversation& now = held.conversation;
      if (!held.is_open) {
        now = handler_(Rank(client), held.opening);
        held.is_open = true;
      } else if (!held.piece.empty() && !held.gives) {
        now.take(held.piece);
        now.incoming -= static_cast<int64_t>(held.piece.size());
        held.piece.clear();
      }
      if (now.incoming > 0) {
        held.piece.resize(static_cast<size_t>(std::min(piece_bytes, now.incoming)));
        check(MPI_Irecv(held.piece.data(), static_cast<int>(held.piece.size()), MPI_BYTE, client, payload_tag, comm_.handle, &held.request),
              "MPI_Irecv", comm_.name);
        continue;
      }
      held.gives = true;
      if (!now.give) return true;
      held.piece = now.give();
      if (held.piece.empty()) return true;
      check(MPI_Isend(held.piece.data(), static_cast<int>(held.piece.size()), MPI_BYTE, client, answer_tag, comm_.handle, &held.request), "MPI_Isend",
            comm_.name);
    }
  }

  const CommunicatorState& comm_;  // kept alive by the operation
  Handler handler_;
  std::shared_ptr<Control> control_;
  std::map<int, std::deque<Held>> clients_;
};

Responder::Responder(const Communicator& comm, Handler handler)
    : control_(std::make_shared<Control>()),
      listening_(start(comm, {.collective = Collective::receive}, std::make_unique<Listening>(comm, std::move(handler), control_))) {}

Responder::~Responder() { control_->closed = true; }

int64_t Responder::ended() const noexcept { return control_->ended; }

}  // namespace tw::mpi
