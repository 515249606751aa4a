// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/responder.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <tw/mpi/engine.hpp>
#include <utility>

#include "conversation.hpp"
#include "openings.hpp"
#include "requests.hpp"

namespace tw::mpi {
namespace {

constexpr size_t pieces_under_way = 2;

}  // namespace

class Responder::Listening : public Transfer {
 public:
  Listening(const Communicator& comm, Handler handler, std::shared_ptr<Control> control)
      : comm_(*comm.state()), handler_(std::move(handler)), control_(std::move(control)), openings_(comm_) {}

  bool advance() override {
    while (!control_->closed) {
      auto opening = openings_.next();
      if (!opening) break;
      clients_[opening->from].held.push_back({.opening = std::move(*opening)});
    }
    bool all_told = true;
    for (auto& [rank, client] : clients_) all_told = serve(rank, client) && all_told;
    return control_->closed && all_told;
  }

 private:
  struct Piece {
    std::vector<std::byte> bytes = {};
    MPI_Request request = MPI_REQUEST_NULL;
    bool incoming = false;
  };
  struct Held {
    Openings::Opening opening;
    bool is_open = false;
    Conversation conversation = {};
    std::vector<Piece> under_way = {};  // two, so that the network need not wait for what is done with them
    std::vector<std::byte> spare = {};
    bool given_all = false;
    std::string failure = {};
  };
  struct Client {
    std::deque<Held> held;
    conversation::Ends ends;  // that are told
    MPI_Request telling = MPI_REQUEST_NULL;
    int64_t ended = 0;
    std::string failure;  // of the last of them; no other ends before it is told
  };

  /// Does what can be done without waiting; true once nothing of the client is left to do, and it knows.
  bool serve(int rank, Client& client) {
    while (true) {
      while (client.failure.empty() && !client.held.empty() && go_on(rank, client.held.front())) {
        client.failure = std::move(client.held.front().failure);
        client.held.pop_front();
        ++client.ended;
        ++control_->ended;
      }
      if (!is_done(client.telling, comm_)) return false;
      if (client.ends.count == client.ended) return client.held.empty();
      tell_ends(rank, client);
    }
  }

  void tell_ends(int rank, Client& client) {
    client.ends.count = client.ended;
    const size_t length = client.failure.copy(client.ends.failure.data(), client.ends.failure.size() - 1);
    client.ends.failure[length] = 0;
    client.failure.clear();
    const auto bytes = static_cast<int>(offsetof(conversation::Ends, failure) + (length > 0 ? length + 1 : 0));
    check(MPI_Isend(&client.ends, bytes, MPI_BYTE, rank, conversation::ends_tag, comm_.handle, &client.telling), "MPI_Isend", comm_.name);
  }

  /// Does what can be done without waiting; true once the conversation has ended.
  bool go_on(int client, Held& held) {
    if (!held.is_open) {
      held.is_open = true;
      attempt(held, [&] { held.conversation = handler_(Rank(client), held.opening.bytes()); });
      openings_.recycle(std::move(held.opening.memory));
    }
    while (true) {
      while (held.under_way.size() < pieces_under_way && begin_piece(client, held)) {
      }
      if (held.under_way.empty()) return true;
      Piece& oldest = held.under_way.front();
      if (!is_done(oldest.request, comm_)) return false;
      if (oldest.incoming && held.failure.empty()) attempt(held, [&] { held.conversation.take(oldest.bytes); });
      held.spare = std::move(oldest.bytes);
      held.under_way.erase(held.under_way.begin());
    }
  }

  template <class Function>
  static void attempt(Held& held, Function f) {
    try {
      f();
    } catch (const std::exception& error) {
      held.failure = *error.what() == 0 ? "an exception" : error.what();
    } catch (...) {
      held.failure = "an exception";
    }
  }

  /// False where none can follow yet.
  bool begin_piece(int client, Held& held) {
    Conversation& now = held.conversation;
    Piece piece{.bytes = std::move(held.spare), .incoming = now.incoming > 0};
    if (piece.incoming) {
      piece.bytes.resize(static_cast<size_t>(std::min(piece_bytes, now.incoming)));
      now.incoming -= static_cast<int64_t>(piece.bytes.size());
      check(MPI_Irecv(piece.bytes.data(), static_cast<int>(piece.bytes.size()), MPI_BYTE, client, conversation::payload_tag, comm_.handle,
                      &piece.request),
            "MPI_Irecv", comm_.name);
    } else {
      const bool taken_all = held.under_way.empty() || !held.under_way.front().incoming;
      if (!now.give || held.given_all || !taken_all) return false;
      now.give(piece.bytes);
      held.given_all = piece.bytes.empty();
      if (held.given_all) return false;
      check(MPI_Isend(piece.bytes.data(), static_cast<int>(piece.bytes.size()), MPI_BYTE, client, conversation::answer_tag, comm_.handle,
                      &piece.request),
            "MPI_Isend", comm_.name);
    }
    held.under_way.push_back(std::move(piece));
    return true;
  }

  const CommunicatorState& comm_;  // kept alive by the operation
  Handler handler_;
  std::shared_ptr<Control> control_;
  Openings openings_;
  std::map<int, Client> clients_;
};

Responder::Responder(const Communicator& comm, Handler handler)
    : control_(std::make_shared<Control>()),
      listening_(start(comm, {.collective = Collective::receive}, std::make_unique<Listening>(comm, std::move(handler), control_))) {}

Responder::~Responder() { control_->closed = true; }

int64_t Responder::ended() const noexcept { return control_->ended; }

}  // namespace tw::mpi
