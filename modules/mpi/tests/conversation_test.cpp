// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <tw/base/concat.hpp>
#include <tw/mpi/caller.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/responder.hpp>

namespace tw::mpi {
namespace conversation_test {

using testing::world;

using Bytes = std::vector<std::byte>;

/// What a client says first: how many bytes belong to it, and are to come back.
struct Opening {
  int64_t number = 0;
  int64_t attached = 0;
  int64_t outgoing = 0;
  int64_t answer = 0;
  bool fails = false;
};

/// The `i`th byte of what belongs to a conversation.
std::byte byte_of(int64_t number, int64_t i) { return static_cast<std::byte>(number * 7 + i * 13 + i / 1000); }

Bytes bytes_of(int64_t number, int64_t count) {
  Bytes bytes(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) bytes[static_cast<size_t>(i)] = byte_of(number, i);
  return bytes;
}

/// Nothing, all sizes that go at once, and several pieces of which the last is shorter.
Opening draw(std::mt19937_64& random, int64_t number) {
  const auto size = [&] {
    const auto kind = random() % 10;
    if (kind < 5) return int64_t{0};
    if (kind < 9) return static_cast<int64_t>(1 + random() % 5000);
    return static_cast<int64_t>(Responder::piece_bytes + random() % (2 * Responder::piece_bytes));
  };
  constexpr auto most_attached = static_cast<int64_t>(Caller::most_opening_bytes - sizeof(Opening));
  Opening opening{.number = number, .attached = std::min(size(), most_attached), .outgoing = size()};
  opening.fails = random() % 5 == 0;
  if (!opening.fails) opening.answer = size();
  return opening;
}

/// Holds conversations as their openings want them; notes what is not as it should be.
class Server {
 public:
  explicit Server(const Communicator& comm) : responder_(comm, [this](Rank from, std::span<const std::byte> bytes) { return hear(from, bytes); }) {}
  const std::string& complaint() const { return complaint_; }
  const Responder& responder() const { return responder_; }

 private:
  Responder::Conversation hear(Rank from, std::span<const std::byte> bytes) {
    Opening opening;
    std::memcpy(&opening, bytes.data(), sizeof opening);
    if (opening.number != next_[from]++) complaint_ = concat("number ", opening.number, " of rank ", int{from}, " is not in its turn");
    const auto attached = bytes.subspan(sizeof opening);
    if (!std::ranges::equal(attached, bytes_of(opening.number, opening.attached))) complaint_ = concat("what is attached to ", opening.number);
    if (opening.fails && opening.outgoing == 0) throw std::runtime_error(concat("no to ", opening.number));
    return {
        .incoming = opening.outgoing,
        .take =
            [this, opening, taken = int64_t{0}](std::span<const std::byte> piece) mutable {
              if (opening.fails && taken++ > 0) complaint_ = concat("number ", opening.number, " goes on after its failure");
              if (opening.fails) throw std::runtime_error(concat("no to ", opening.number));
              for (const std::byte each : piece) {
                if (each != byte_of(opening.number, taken++)) complaint_ = concat("payload of ", opening.number);
              }
            },
        .give =
            [opening, given = int64_t{0}](Bytes& piece) mutable {
              piece.resize(static_cast<size_t>(std::min(Responder::piece_bytes, opening.answer - given)));
              for (std::byte& each : piece) each = byte_of(-opening.number, given++);
            },
    };
  }

  std::map<int, int64_t> next_;
  std::string complaint_;
  Responder responder_;
};

/// All call all, themselves included, more than may be under way: order, contents, and whose failure it was.
TEST(Conversation, IsHeldInItsTurnAndFailsForItself) {
  constexpr int64_t conversations = 300;
  const Communicator comm = world().dup();
  Server server(comm);
  Caller caller(comm);
  struct Held {
    Opening opening;
    Bytes attached;
    Bytes outgoing;
    Bytes incoming;
    std::shared_ptr<std::string> failure = std::make_shared<std::string>();
    Work work = {};
  };
  std::mt19937_64 random(static_cast<uint64_t>(comm.rank()));
  std::vector<std::unique_ptr<Held>> all;
  for (int64_t number = 0; number < conversations; ++number) {
    for (int to = 0; to < comm.size(); ++to) {
      auto held = std::make_unique<Held>();
      held->opening = draw(random, number);
      held->attached = bytes_of(number, held->opening.attached);
      held->outgoing = bytes_of(number, held->opening.outgoing);
      held->incoming.resize(static_cast<size_t>(held->opening.answer));
      auto messages = caller.call(Rank(to), {.opening = std::as_bytes(std::span(&held->opening, 1)),
                                             .attached = held->attached,
                                             .outgoing = held->outgoing,
                                             .incoming = held->incoming,
                                             .failure = held->failure});
      held->work = start(comm, {.collective = Collective::send, .peer = to}, std::move(messages));
      all.push_back(std::move(held));
      EXPECT_LE(caller.under_way(), Caller::most_under_way * comm.size());
    }
  }
  for (const auto& held : all) {
    held->work.wait();
    const Opening& opening = held->opening;
    EXPECT_EQ(held->incoming, bytes_of(-opening.number, opening.answer)) << opening.number;
    if (opening.fails) {
      EXPECT_NE(held->failure->find(concat("no to ", opening.number)), std::string::npos) << *held->failure;
    } else {
      EXPECT_EQ(*held->failure, "") << opening.number;
    }
  }
  EXPECT_EQ(caller.under_way(), 0);
  comm.barrier();
  EXPECT_EQ(server.complaint(), "");
  EXPECT_EQ(server.responder().ended(), conversations * comm.size());
}

TEST(Conversation, LeavesNothingBehind) {
  progress(world());  // those of other tests
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

TEST(Conversation, RefusesAnOpeningThatIsTooLong) {
  const Communicator comm = world().dup();
  Caller caller(comm);
  const Bytes opening(Caller::most_opening_bytes);
  const std::byte one{};
  EXPECT_THROW(caller.call(Rank(0), {.opening = opening, .attached = {&one, 1}}), ContractError);
  EXPECT_EQ(caller.under_way(), 0);
}

}  // namespace conversation_test
}  // namespace tw::mpi
