// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/rpc_client.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/rpc_server.hpp>
#include <utility>

#include "requests.hpp"
#include "rpc_protocol.hpp"

namespace tw::mpi {
namespace {

/// Calls `f(bytes)` for each piece of a payload or response.
template <class Bytes, class Function>
void for_each_piece(Bytes all, Function f) {
  constexpr size_t piece = RpcServer::piece_bytes;
  for (size_t at = 0; at < all.size(); at += piece) f(all.subspan(at, std::min(piece, all.size() - at)));
}

}  // namespace

/// The calls to one rank. The caller assigns their numbers and fills their requests; everything after that happens inside the engine.
class RpcClient::Line {
 public:
  Line(const CommunicatorState& comm, int rank) : comm_(comm), rank_(rank) {}

  struct Beginning {
    int64_t number;
    std::span<const std::byte> request;  ///< valid until the call ends
  };
  Beginning begin(const Message& message) {
    TW_EXPECTS(!message.request.empty(), "a request must have at least one byte, got none");
    const int64_t number = begun_++;
    auto& kept = requests_[static_cast<size_t>(number % max_in_flight)];
    const auto rest = std::copy(message.request.begin(), message.request.end(), kept.begin());
    const auto end = std::copy(message.attached.begin(), message.attached.end(), rest);
    return {number, {kept.begin(), end}};
  }
  int64_t in_flight() const { return begun_ - ended_.load(std::memory_order_acquire); }

  /// Whether all earlier calls have ended, and the server has ended this one. Only the oldest call listens, so a look costs the same however many are
  /// in flight.
  bool can_end(int64_t number) {
    if (number != ended_.load(std::memory_order_relaxed)) return false;
    if (number == ended_there_) listen();
    return number < ended_there_;
  }

  /// Ends the oldest call. @return the error that the server threw, or nothing
  std::string end() {
    const int64_t ended = ended_.fetch_add(1, std::memory_order_release) + 1;
    return ended == ended_there_ ? std::exchange(failure_, {}) : std::string();
  }

 private:
  void listen() {
    if (request_ == MPI_REQUEST_NULL) {
      received_ = {};
      check(MPI_Irecv(&received_, sizeof received_, MPI_BYTE, rank_, rpc::ends_tag, comm_.handle, &request_), "MPI_Irecv", comm_.name);
    }
    if (!is_done(request_, comm_)) return;
    ended_there_ = received_.count;
    if (received_.failure.front() != 0) failure_ = concat("on rank ", rank_, ": ", received_.failure.data());
  }

  const CommunicatorState& comm_;  // kept alive by the operations
  int rank_;
  int64_t begun_ = 0;
  std::array<std::array<std::byte, max_request_bytes>, max_in_flight> requests_;
  int64_t ended_there_ = 0;  // number of calls that the server has ended
  std::atomic<int64_t> ended_ = 0;
  rpc::Ends received_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::string failure_;  // of the last call the server ended
};

/// The messages of one call.
class RpcClient::Messages : public Transfer {
 public:
  Messages(CommunicatorState& comm, int rank, const Message& message, std::shared_ptr<Line> line)
      : comm_(comm), line_(std::move(line)), failure_(message.failure ? message.failure : std::make_shared<std::string>()) {
    ++comm_.traffic.open;
    constexpr int64_t piece = RpcServer::piece_bytes;
    const auto pieces = [](auto bytes) { return (bytes.size() + piece - 1) / piece; };
    pieces_.reserve(pieces(message.outgoing) + pieces(message.incoming));
    for_each_piece(message.incoming, [&](auto bytes) {
      check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, rpc::response_tag, comm_.handle,
                      &pieces_.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Irecv", comm_.name);
    });
    const auto [number, request] = line_->begin(message);
    number_ = number;
    send(request, rank, rpc::request_tag, request_sent_);
    for_each_piece(message.outgoing, [&](auto bytes) { send(bytes, rank, rpc::payload_tag, pieces_.emplace_back(MPI_REQUEST_NULL)); });
  }

  bool advance() override {
    if (!line_->can_end(number_) || !is_done(request_sent_, comm_)) return false;
    while (!pieces_.empty()) {
      if (!is_done(pieces_.back(), comm_)) return false;
      pieces_.pop_back();
    }
    *failure_ = line_->end();
    if (!failure_->empty() && failure_.use_count() == 1) log_error(concat("a call of an RpcServer failed ", *failure_));
    --comm_.traffic.open;
    return true;
  }

 private:
  void send(std::span<const std::byte> bytes, int rank, int tag, MPI_Request& request) {
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, tag, comm_.handle, &request), "MPI_Isend", comm_.name);
  }

  CommunicatorState& comm_;  // kept alive by the operation
  std::shared_ptr<Line> line_;
  int64_t number_ = 0;
  std::shared_ptr<std::string> failure_;
  MPI_Request request_sent_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> pieces_;
};

/// An empty request: this client leaves.
class RpcClient::Leaving : public Transfer {
 public:
  Leaving(CommunicatorState& comm, int rank) : comm_(comm) {
    ++comm_.traffic.open;
    check(MPI_Isend(nullptr, 0, MPI_BYTE, rank, rpc::request_tag, comm_.handle, &request_), "MPI_Isend", comm_.name);
    ++comm_.traffic.sent;
  }
  bool advance() override {
    if (!is_done(request_, comm_)) return false;
    --comm_.traffic.open;
    return true;
  }

 private:
  CommunicatorState& comm_;  // kept alive by the operation
  MPI_Request request_ = MPI_REQUEST_NULL;
};

RpcClient::RpcClient(const Communicator& comm) : comm_(comm), lines_(static_cast<size_t>(comm.size())) {}

std::unique_ptr<Transfer> RpcClient::call(Rank rank, const Message& message) {
  const size_t bytes = message.request.size() + message.attached.size();
  TW_EXPECTS(bytes <= max_request_bytes, "a request may have ", max_request_bytes, " bytes at most, got ", bytes);
  std::shared_ptr<Line>& line = lines_[static_cast<size_t>(rank)];
  if (!line) line = std::make_shared<Line>(*comm_.state(), rank);
  expect_own_thread(comm_);
  wait_for_at_most(max_in_flight - 1, *line, rank);
  expect_not_revoked(*comm_.state(), "a call of an RpcServer");
  return std::make_unique<Messages>(*comm_.state(), rank, message, line);
}

void RpcClient::leave(Rank rank) noexcept {
  if (Runtime::find_current() != comm_.state()->runtime || comm_.revoked()) return;
  try {
    (void)start(comm_, {.collective = Collective::send, .peer = rank}, std::make_unique<Leaving>(*comm_.state(), rank));
  } catch (const std::exception& error) {
    log_error(concat("rank ", rank, " of '", comm_.name(), "' could not be notified that this rank makes no further calls: ", error.what()));
  }
}

void RpcClient::finish(const std::function<void()>& between) {
  for (size_t rank = 0; rank < lines_.size(); ++rank) {
    if (lines_[rank]) wait_for_at_most(0, *lines_[rank], Rank(static_cast<int>(rank)), between);
  }
}

// Under the stall watchdog, which restarts each time a call ends.
void RpcClient::wait_for_at_most(int64_t calls, const Line& line, Rank rank, const std::function<void()>& between) {
  if (line.in_flight() <= calls) return;
  const Call call{.collective = Collective::send, .peer = rank, .count = line.in_flight()};
  const auto is_done = [&] {
    if (line.in_flight() <= calls) return true;
    if (between) between();
    return false;
  };
  wait_until(comm_, call, is_done, [&] { return line.in_flight(); });
}

int64_t RpcClient::in_flight() const noexcept {
  int64_t count = 0;
  for (const auto& line : lines_) count += line ? line->in_flight() : 0;
  return count;
}

}  // namespace tw::mpi
