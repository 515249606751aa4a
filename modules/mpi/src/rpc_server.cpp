// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/rpc_server.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <tw/mpi/engine.hpp>
#include <utility>

#include "requests.hpp"
#include "rpc_protocol.hpp"
#include "rpc_requests.hpp"

namespace tw::mpi {
namespace {

constexpr size_t pieces_in_flight = 2;

}  // namespace

class RpcServer::Listening : public Transfer {
 public:
  Listening(const Communicator& comm, Handler handler, std::shared_ptr<Control> control)
      : comm_(*comm.state()), handler_(std::move(handler)), control_(std::move(control)), requests_(comm_) {
    ++comm_.traffic.open;
  }

  bool advance() override {
    while (is_accepting()) {
      auto request = requests_.next();
      if (!request) break;
      if (request->size == 0) {
        ++left_;
        ++comm_.traffic.received;
        requests_.recycle(std::move(request->memory));
      } else {
        clients_[request->from].held.push_back({.request = std::move(*request)});
      }
    }
    bool all_served = true;
    for (auto& [rank, client] : clients_) all_served = serve(rank, client) && all_served;
    const bool is_over = !is_accepting() && all_served;
    if (is_over) --comm_.traffic.open;
    return is_over;
  }

 private:
  struct Piece {
    std::vector<std::byte> bytes = {};
    MPI_Request request = MPI_REQUEST_NULL;
    bool incoming = false;
  };
  struct Held {
    RpcRequests::RpcRequest request;
    bool is_open = false;
    Exchange call = {};
    std::vector<Piece> in_flight = {};  // two, so that the network need not wait while one is processed
    std::vector<std::byte> spare = {};
    bool given_all = false;
    std::string failure = {};
  };
  struct Client {
    std::deque<Held> held;
    rpc::Ends ends;  // the message being sent
    MPI_Request sending = MPI_REQUEST_NULL;
    int64_t ended = 0;
    std::string failure;  // of the last call that ended; no other call ends until the client has been sent it
  };

  bool is_accepting() const { return !control_->closed || left_ < control_->clients; }

  /// Does what it can without blocking; true once no call of the client is left and the client knows it.
  bool serve(int rank, Client& client) {
    while (true) {
      while (client.failure.empty() && !client.held.empty() && go_on(rank, client.held.front())) {
        client.failure = std::move(client.held.front().failure);
        client.held.pop_front();
        ++client.ended;
        ++control_->ended;
      }
      if (!is_done(client.sending, comm_)) return false;
      if (client.ends.count == client.ended) return client.held.empty();
      send_ends(rank, client);
    }
  }

  void send_ends(int rank, Client& client) {
    client.ends.count = client.ended;
    const size_t length = client.failure.copy(client.ends.failure.data(), client.ends.failure.size() - 1);
    client.ends.failure[length] = 0;
    client.failure.clear();
    const auto bytes = static_cast<int>(offsetof(rpc::Ends, failure) + (length > 0 ? length + 1 : 0));
    check(MPI_Isend(&client.ends, bytes, MPI_BYTE, rank, rpc::ends_tag, comm_.handle, &client.sending), "MPI_Isend", comm_.name);
  }

  /// Does what it can without blocking; true once the call has ended.
  bool go_on(int client, Held& held) {
    if (!held.is_open) {
      std::optional<Exchange> call = Exchange();
      attempt(held, [&] { call = handler_(Rank(client), held.request.bytes()); });
      if (!call) return false;
      held.is_open = true;
      held.call = std::move(*call);
      requests_.recycle(std::move(held.request.memory));
    }
    while (true) {
      while (held.in_flight.size() < pieces_in_flight && begin_piece(client, held)) {
      }
      if (held.in_flight.empty()) return true;
      Piece& oldest = held.in_flight.front();
      if (!is_done(oldest.request, comm_)) return false;
      if (oldest.incoming && held.failure.empty()) attempt(held, [&] { held.call.take(oldest.bytes); });
      held.spare = std::move(oldest.bytes);
      held.in_flight.erase(held.in_flight.begin());
    }
  }

  template <class Function>
  static void attempt(Held& held, Function f) {
    try {
      f();
    } catch (const std::exception& error) {
      held.failure = *error.what() == 0 ? "an exception without a message" : error.what();
    } catch (...) {
      held.failure = "an exception that is not a std::exception";
    }
  }

  /// False if no further piece can start yet.
  bool begin_piece(int client, Held& held) {
    Exchange& now = held.call;
    Piece piece{.bytes = std::move(held.spare), .incoming = now.incoming > 0};
    if (piece.incoming) {
      piece.bytes.resize(static_cast<size_t>(std::min(piece_bytes, now.incoming)));
      now.incoming -= static_cast<int64_t>(piece.bytes.size());
      check(MPI_Irecv(piece.bytes.data(), static_cast<int>(piece.bytes.size()), MPI_BYTE, client, rpc::payload_tag, comm_.handle, &piece.request),
            "MPI_Irecv", comm_.name);
    } else {
      const bool taken_all = held.in_flight.empty() || !held.in_flight.front().incoming;
      if (!now.answer || held.given_all || !taken_all) return false;
      now.answer(piece.bytes);
      held.given_all = piece.bytes.empty();
      if (held.given_all) return false;
      check(MPI_Isend(piece.bytes.data(), static_cast<int>(piece.bytes.size()), MPI_BYTE, client, rpc::response_tag, comm_.handle, &piece.request),
            "MPI_Isend", comm_.name);
    }
    held.in_flight.push_back(std::move(piece));
    return true;
  }

  CommunicatorState& comm_;  // kept alive by the operation
  Handler handler_;
  std::shared_ptr<Control> control_;
  RpcRequests requests_;
  int left_ = 0;  // number of clients that have left
  std::map<int, Client> clients_;
};

RpcServer::RpcServer(const Communicator& comm, Handler handler)
    : control_(std::make_shared<Control>()),
      listening_(start(comm, {.collective = Collective::receive}, std::make_unique<Listening>(comm, std::move(handler), control_))) {}

RpcServer::~RpcServer() { control_->closed = true; }

int64_t RpcServer::ended() const noexcept { return control_->ended; }

}  // namespace tw::mpi
