// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/responder.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <tw/mpi/engine.hpp>
#include <utility>

#include "requests.hpp"

namespace tw::mpi {
namespace {

constexpr size_t pieces_under_way = 2;

}  // namespace

class Responder::Listening : public Transfer {
 public:
  Listening(const Communicator& comm, Handler handler, std::shared_ptr<Control> control)
      : comm_(*comm.state()), handler_(std::move(handler)), control_(std::move(control)) {}

  bool advance() override {
    if (!control_->closed) hear_openings();
    bool all_ended = true;
    for (auto& [rank, held] : clients_) {
      while (!held.empty() && go_on(rank, held.front())) {
        held.pop_front();
        ++control_->ended;
      }
      all_ended = all_ended && held.empty();
    }
    return control_->closed && all_ended;
  }

 private:
  struct Piece {
    std::vector<std::byte> bytes = {};
    MPI_Request request = MPI_REQUEST_NULL;
    bool incoming = false;
  };
  struct Held {
    Piece opening = {};
    bool is_open = false;
    Conversation conversation = {};
    std::vector<Piece> under_way = {};  // two, so that the network need not wait for what is done with them
    std::vector<std::byte> spare = {};
    bool given_all = false;
  };

  void hear_openings() {
    Piece opening;
    while (const auto client = receive_from_anyone(comm_, opening_tag, opening.bytes, opening.request)) {
      clients_[*client].emplace_back().opening = std::exchange(opening, {});
    }
  }

  /// Does what can be done without waiting; true once the conversation has ended.
  bool go_on(int client, Held& held) {
    if (!held.is_open) {
      if (!is_done(held.opening.request, comm_)) return false;
      held.conversation = handler_(Rank(client), held.opening.bytes);
      held.is_open = true;
    }
    while (true) {
      while (held.under_way.size() < pieces_under_way && begin_piece(client, held)) {
      }
      if (held.under_way.empty()) return true;
      Piece& oldest = held.under_way.front();
      if (!is_done(oldest.request, comm_)) return false;
      if (oldest.incoming) held.conversation.take(oldest.bytes);
      held.spare = std::move(oldest.bytes);
      held.under_way.erase(held.under_way.begin());
    }
  }

  /// False where none can follow yet.
  bool begin_piece(int client, Held& held) {
    Conversation& now = held.conversation;
    Piece piece{.bytes = std::move(held.spare), .incoming = now.incoming > 0};
    if (piece.incoming) {
      piece.bytes.resize(static_cast<size_t>(std::min(piece_bytes, now.incoming)));
      now.incoming -= static_cast<int64_t>(piece.bytes.size());
      check(MPI_Irecv(piece.bytes.data(), static_cast<int>(piece.bytes.size()), MPI_BYTE, client, payload_tag, comm_.handle, &piece.request),
            "MPI_Irecv", comm_.name);
    } else {
      const bool taken_all = held.under_way.empty() || !held.under_way.front().incoming;
      if (!now.give || held.given_all || !taken_all) return false;
      now.give(piece.bytes);
      held.given_all = piece.bytes.empty();
      if (held.given_all) return false;
      check(MPI_Isend(piece.bytes.data(), static_cast<int>(piece.bytes.size()), MPI_BYTE, client, answer_tag, comm_.handle, &piece.request),
            "MPI_Isend", comm_.name);
    }
    held.under_way.push_back(std::move(piece));
    return true;
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
