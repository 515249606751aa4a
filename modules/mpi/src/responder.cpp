// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/responder.hpp>

#include <sched.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tw/mpi/error.hpp>

#include "runtime.hpp"

namespace tw::mpi {
namespace {

constexpr size_t pieces_under_way = 2;

void expect_not_revoked(const CommunicatorState& comm) {
  if (const auto* revoked = comm.revoked_ancestor()) throw RevokedError(revoked->name, "a conversation", revoked->revoked_because);
}

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
    while (true) {
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      check(MPI_Improbe(MPI_ANY_SOURCE, opening_tag, comm_.handle, &found, &message, &status), "MPI_Improbe", comm_.name);
      if (found == 0) return;
      int bytes = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", comm_.name);
      Piece& opening = clients_[status.MPI_SOURCE].emplace_back().opening;
      opening.bytes.resize(static_cast<size_t>(bytes));
      check(MPI_Imrecv(opening.bytes.data(), bytes, MPI_BYTE, &message, &opening.request), "MPI_Imrecv", comm_.name);
    }
  }

  /// Does what can be done without waiting; true once the conversation has ended.
  bool go_on(int client, Held& held) {
    if (!held.is_open) {
      if (!is_done(held.opening.request, comm_.name)) return false;
      held.conversation = handler_(Rank(client), held.opening.bytes);
      held.is_open = true;
    }
    while (true) {
      while (held.under_way.size() < pieces_under_way && begin_piece(client, held)) {
      }
      if (held.under_way.empty()) return true;
      Piece& oldest = held.under_way.front();
      if (!is_done(oldest.request, comm_.name)) return false;
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

/// Those of one conversation. They are looked at when all conversations before it have ended: so a look takes the same time however many there are.
class Caller::Messages : public Transfer {
 public:
  Messages(const CommunicatorState& comm, int rank, const Letter& letter, std::shared_ptr<Counts> counts)
      : comm_(comm), counts_(std::move(counts)), number_(counts_->begun++) {
    constexpr int64_t piece = Responder::piece_bytes;
    const auto pieces = [](auto bytes) { return (bytes.size() + piece - 1) / piece; };
    requests_.reserve(1 + pieces(letter.outgoing) + pieces(letter.incoming));
    for_each_piece(letter.incoming, [&](auto bytes) {
      check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, Responder::answer_tag, comm_.handle, next_request()), "MPI_Irecv",
            comm_.name);
    });
    send(letter.opening, rank, Responder::opening_tag);
    for_each_piece(letter.outgoing, [&](auto bytes) { send(bytes, rank, Responder::payload_tag); });
  }

  bool advance() override {
    if (counts_->ended.load(std::memory_order_relaxed) != number_) return false;
    while (!requests_.empty()) {
      if (!is_done(requests_.back(), comm_.name)) return false;
      requests_.pop_back();
    }
    counts_->ended.store(number_ + 1, std::memory_order_relaxed);
    return true;
  }

 private:
  template <class Bytes, class Function>
  static void for_each_piece(Bytes bytes, Function f) {
    constexpr size_t piece = Responder::piece_bytes;
    for (size_t at = 0; at < bytes.size(); at += piece) f(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  }
  MPI_Request* next_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void send(std::span<const std::byte> bytes, int rank, int tag) {
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, tag, comm_.handle, next_request()), "MPI_Isend", comm_.name);
  }

  const CommunicatorState& comm_;  // kept alive by the operation
  std::shared_ptr<Counts> counts_;
  int64_t number_;
  std::vector<MPI_Request> requests_;
};

Caller::Caller(const Communicator& comm) : comm_(comm) {
  for (int rank = 0; rank < comm.size(); ++rank) counts_.push_back(std::make_shared<Counts>());
}

std::unique_ptr<Transfer> Caller::call(Rank rank, const Letter& letter) {
  const std::shared_ptr<Counts>& counts = counts_[static_cast<size_t>(rank)];
  while (counts->begun - counts->ended >= most_under_way) {
    progress(comm_);
    expect_not_revoked(*comm_.state());
    if (counts->begun - counts->ended >= most_under_way) sched_yield();
  }
  expect_not_revoked(*comm_.state());
  return std::make_unique<Messages>(*comm_.state(), rank, letter, counts);
}

int64_t Caller::under_way() const noexcept {
  int64_t count = 0;
  for (const auto& each : counts_) count += each->begun - each->ended;
  return count;
}

}  // namespace tw::mpi
