// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <cstring>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/mailbox.hpp>

namespace tw::mpi {
namespace mailbox_test {

using testing::world;

std::vector<std::byte> letter_of(int64_t number, size_t bytes) {
  std::vector<std::byte> message(bytes, std::byte{static_cast<unsigned char>(number)});
  std::memcpy(message.data(), &number, sizeof number);
  return message;
}

/// All ranks send to all, themselves included: more messages than may be in flight, of all sizes from eager to rendezvous. No sender waits for a
/// receiver to listen.
TEST(Mailbox, KeepsTheOrderOfEachSender) {
  constexpr int64_t messages = 600;
  Mailbox mailbox(world());
  const auto size_of = [](int64_t number) { return sizeof(int64_t) + static_cast<size_t>(number % 7 == 0 ? 100000 : number % 50); };
  for (int64_t number = 0; number < messages; ++number) {
    for (int to = 0; to < world().size(); ++to) mailbox.send(letter_of(number, size_of(number)), Rank(to));
  }
  std::vector<int64_t> next(static_cast<size_t>(world().size()), 0);
  for (int64_t left = messages * world().size(); left > 0; --left) {
    auto message = mailbox.take_within(std::chrono::seconds(30));
    ASSERT_TRUE(message.has_value());
    int64_t& expected = next[static_cast<size_t>(message->from)];
    ASSERT_EQ(message->bytes, letter_of(expected, size_of(expected)));
    ++expected;
  }
  mailbox.flush();
  EXPECT_EQ(mailbox.take(), std::nullopt);
  EXPECT_EQ(mailbox.sent(), std::vector<int64_t>(static_cast<size_t>(world().size()), messages));
  EXPECT_EQ(mailbox.received(), mailbox.sent());
}

TEST(Mailbox, LeavesNothingBehind) {
  progress(world());  // completes mailboxes of other tests
  const int64_t before = operations_in_flight(world());
  {
    const Mailbox mailbox(world());
    EXPECT_GT(operations_in_flight(world()), before);
  }
  progress(world());
  EXPECT_EQ(operations_in_flight(world()), before);
}

/// Counts how often the engine advances everything.
class Counter : public Transfer {
 public:
  explicit Counter(std::shared_ptr<int> rounds) : rounds_(std::move(rounds)) {}
  bool advance() override { return ++*rounds_ < 0; }

 private:
  std::shared_ptr<int> rounds_;
};

TW_TEST_ON(Mailbox, TakesWithoutLookingAtEachLetterThatIsOnItsWay, {.least = 2}) {
  constexpr int letters = 255;
  Mailbox mailbox(world());
  if (world().rank() == 0) {
    for (int64_t number = 0; number < letters; ++number) mailbox.send(letter_of(number, 100000), Rank(1));
    const auto rounds = std::make_shared<int>(0);
    const Work counting = start(world(), {.collective = Collective::receive}, std::make_unique<Counter>(rounds));
    const int before = *rounds;
    EXPECT_EQ(mailbox.take(), std::nullopt);
    EXPECT_LE(*rounds - before, 2);
    *rounds = std::numeric_limits<int>::min();  // ends it
  }
  world().barrier();
  for (int left = world().rank() == 1 ? letters : 0; left > 0; --left) ASSERT_TRUE(mailbox.take_within(std::chrono::seconds(30)).has_value());
  mailbox.flush();
  world().barrier();
}

TEST(Mailbox, WaitsNoLongerThanAsked) {
  Mailbox mailbox(world());
  EXPECT_EQ(mailbox.take_within(std::chrono::milliseconds(1)), std::nullopt);
  world().barrier();
}

TEST(Mailbox, RefusesWhatCannotBeSent) {
  Mailbox mailbox(world());
  EXPECT_THROW(mailbox.send({}, Rank(0)), ContractError);
  EXPECT_THROW(mailbox.send(letter_of(1, 8), Rank(world().size())), ContractError);
  EXPECT_THROW(mailbox.send(letter_of(1, 8), Rank(-1)), ContractError);
  EXPECT_EQ(mailbox.sent(), std::vector<int64_t>(static_cast<size_t>(world().size()), 0));
  world().barrier();
}

}  // namespace mailbox_test
}  // namespace tw::mpi
