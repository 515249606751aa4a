// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <tw/base/concat.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/rpc_client.hpp>
#include <tw/mpi/rpc_server.hpp>

namespace tw::mpi {
namespace rpc_test {

using testing::world;

using Bytes = std::vector<std::byte>;

/// The head of a client's request: the numbers of bytes attached, sent, and expected back.
struct RpcRequest {
  int64_t number = 0;
  int64_t attached = 0;
  int64_t outgoing = 0;
  int64_t answer = 0;
  bool fails = false;
};

/// The `i`th byte of a call's data.
std::byte byte_of(int64_t number, int64_t i) { return static_cast<std::byte>(number * 7 + i * 13 + i / 1000); }

Bytes bytes_of(int64_t number, int64_t count) {
  Bytes bytes(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) bytes[static_cast<size_t>(i)] = byte_of(number, i);
  return bytes;
}

/// No bytes, all sizes sent at once, and several pieces with a shorter last one.
RpcRequest draw(std::mt19937_64& random, int64_t number) {
  const auto size = [&] {
    const auto kind = random() % 10;
    if (kind < 5) return int64_t{0};
    if (kind < 9) return static_cast<int64_t>(1 + random() % 5000);
    return static_cast<int64_t>(RpcServer::piece_bytes + random() % (2 * RpcServer::piece_bytes));
  };
  constexpr auto max_attached = static_cast<int64_t>(RpcClient::max_request_bytes - sizeof(RpcRequest));
  RpcRequest request{.number = number, .attached = std::min(size(), max_attached), .outgoing = size()};
  request.fails = random() % 5 == 0;
  if (!request.fails) request.answer = size();
  return request;
}

/// Serves calls as their requests ask; records what is wrong.
class Server {
 public:
  explicit Server(const Communicator& comm) : responder_(comm, [this](Rank from, std::span<const std::byte> bytes) { return hear(from, bytes); }) {}
  const std::string& complaint() const { return complaint_; }
  const RpcServer& responder() const { return responder_; }

 private:
  RpcServer::Exchange hear(Rank from, std::span<const std::byte> bytes) {
    RpcRequest request;
    std::memcpy(&request, bytes.data(), sizeof request);
    if (request.number != next_[from]++) complaint_ = concat("number ", request.number, " of rank ", int{from}, " is not in its turn");
    const auto attached = bytes.subspan(sizeof request);
    if (!std::ranges::equal(attached, bytes_of(request.number, request.attached))) complaint_ = concat("what is attached to ", request.number);
    if (request.fails && request.outgoing == 0) throw std::runtime_error(concat("no to ", request.number));
    return {
        .incoming = request.outgoing,
        .take =
            [this, request, taken = int64_t{0}](std::span<const std::byte> piece) mutable {
              if (request.fails && taken++ > 0) complaint_ = concat("number ", request.number, " goes on after its failure");
              if (request.fails) throw std::runtime_error(concat("no to ", request.number));
              for (const std::byte each : piece) {
                if (each != byte_of(request.number, taken++)) complaint_ = concat("payload of ", request.number);
              }
            },
        .answer =
            [request, given = int64_t{0}](Bytes& piece) mutable {
              piece.resize(static_cast<size_t>(std::min(RpcServer::piece_bytes, request.answer - given)));
              for (std::byte& each : piece) each = byte_of(-request.number, given++);
            },
    };
  }

  std::map<int, int64_t> next_;
  std::string complaint_;
  RpcServer responder_;
};

/// All ranks call all, themselves included, with more calls than may be in flight. Checks order, contents, and whose call failed.
TEST(Exchange, IsHeldInItsTurnAndFailsForItself) {
  constexpr int64_t calls = 300;
  const Communicator comm = world().dup();
  Server server(comm);
  RpcClient caller(comm);
  struct Held {
    RpcRequest request;
    Bytes attached;
    Bytes outgoing;
    Bytes incoming;
    std::shared_ptr<std::string> failure = std::make_shared<std::string>();
    Work work = {};
  };
  std::mt19937_64 random(static_cast<uint64_t>(comm.rank()));
  std::vector<std::unique_ptr<Held>> all;
  for (int64_t number = 0; number < calls; ++number) {
    for (int to = 0; to < comm.size(); ++to) {
      auto held = std::make_unique<Held>();
      held->request = draw(random, number);
      held->attached = bytes_of(number, held->request.attached);
      held->outgoing = bytes_of(number, held->request.outgoing);
      held->incoming.resize(static_cast<size_t>(held->request.answer));
      auto messages = caller.call(Rank(to), {.request = std::as_bytes(std::span(&held->request, 1)),
                                             .attached = held->attached,
                                             .outgoing = held->outgoing,
                                             .incoming = held->incoming,
                                             .failure = held->failure});
      held->work = start(comm, {.collective = Collective::send, .peer = to}, std::move(messages));
      all.push_back(std::move(held));
      EXPECT_LE(caller.in_flight(), RpcClient::max_in_flight * comm.size());
    }
  }
  for (const auto& held : all) {
    held->work.wait();
    const RpcRequest& request = held->request;
    EXPECT_EQ(held->incoming, bytes_of(-request.number, request.answer)) << request.number;
    if (request.fails) {
      EXPECT_NE(held->failure->find(concat("no to ", request.number)), std::string::npos) << *held->failure;
    } else {
      EXPECT_EQ(*held->failure, "") << request.number;
    }
  }
  EXPECT_EQ(caller.in_flight(), 0);
  comm.barrier();
  EXPECT_EQ(server.complaint(), "");
  EXPECT_EQ(server.responder().ended(), calls * comm.size());
}

/// A call that its server cannot start yet keeps its turn, and delays no other client.
TEST(Exchange, MayBeginLater) {
  const Communicator comm = world().dup();
  std::vector<int> begun;
  bool open = false;
  const RpcServer server(comm, [&](Rank from, std::span<const std::byte> request) -> std::optional<RpcServer::Exchange> {
    if (from == 0 && request.front() == std::byte{1} && !open) return std::nullopt;
    begun.push_back(static_cast<int>(request.front()) + 10 * from);
    return RpcServer::Exchange();
  });
  RpcClient caller(comm);
  std::vector<Work> calls;
  for (const std::byte number : {std::byte{0}, std::byte{1}, std::byte{2}}) {
    calls.push_back(start(comm, {.collective = Collective::send, .peer = 0}, caller.call(Rank(0), {.request = {&number, 1}})));
  }
  const auto all = static_cast<size_t>(3 * comm.size());
  if (comm.rank() == 0) {
    while (begun.size() < all - 2) progress(comm);
    EXPECT_EQ(std::ranges::count(begun, 1), 0);
    EXPECT_EQ(std::ranges::count(begun, 2), 0);
    open = true;
  }
  for (Work& each : calls) each.wait();
  comm.barrier();
  if (comm.rank() == 0) {
    EXPECT_EQ(begun.size(), all);
    EXPECT_LT(std::ranges::find(begun, 1), std::ranges::find(begun, 2));
  }
}

/// Like a wait for a lock in memory that another process holds: inside the engine, which advances nothing else meanwhile.
TEST(Exchange, HandlersMayWaitForWhatNeedsNoMessages) {
  const Communicator comm = world().dup();
  int looks = 0;
  const RpcServer server(comm, [&](Rank from, std::span<const std::byte>) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);  // long enough for the watchdog to look
    wait_until(comm, {.collective = Collective::receive, .peer = from}, [&] { return ++looks > 0 && std::chrono::steady_clock::now() > deadline; });
    return RpcServer::Exchange();
  });
  RpcClient caller(comm);
  const std::byte one{1};
  start(comm, {.collective = Collective::send, .peer = 0}, caller.call(Rank(0), {.request = {&one, 1}})).wait();
  comm.barrier();
  EXPECT_EQ(looks > 0, comm.rank() == 0);
}

/// A server is destroyed while clients still call it, and is released when they have left.
TEST(Exchange, OutlastsItsServerUntilTheClientsHaveLeft) {
  progress(world());
  const int64_t before = operations_in_flight(world());
  {
    const Communicator comm = world().dup();
    {
      RpcServer server(comm, [](Rank, std::span<const std::byte>) { return RpcServer::Exchange(); });
      server.outlast(comm.size());
    }
    comm.barrier();
    RpcClient caller(comm);
    const std::byte one{1};
    Work call = start(comm, {.collective = Collective::send, .peer = 0}, caller.call(Rank(0), {.request = {&one, 1}}));
    for (int rank = 0; rank < comm.size(); ++rank) caller.leave(Rank(rank));
    call.wait();
  }
  while (operations_in_flight(world()) > before) progress(world());
  EXPECT_EQ(operations_in_flight(world()), before);
}

TEST(Exchange, LeavesNothingBehind) {
  progress(world());  // completes those of other tests
  const int64_t before = operations_in_flight(world());
  {
    const Communicator comm = world().dup();
    const Server server(comm);
    EXPECT_GT(operations_in_flight(world()), before);
    comm.barrier();
  }
  progress(world());
  EXPECT_EQ(operations_in_flight(world()), before);
}

TEST(Exchange, RefusesAnOpeningThatIsTooLong) {
  const Communicator comm = world().dup();
  RpcClient caller(comm);
  const Bytes request(RpcClient::max_request_bytes);
  const std::byte one{};
  EXPECT_THROW(caller.call(Rank(0), {.request = request, .attached = {&one, 1}}), ContractError);
  EXPECT_EQ(caller.in_flight(), 0);
}

}  // namespace rpc_test
}  // namespace tw::mpi
