// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <gtest/gtest.h>

namespace messages_test {

using namespace tw::search;
using tw::ByteReader;
using tw::Bytes;

Individual an_individual() {
  return {.trial = 7,
          .values = {1.5, -2},
          .loss = 0.25,
          .state = TrialState::pruned,
          .tag = {1, 2, 3},
          .worker = 4,
          .island = 5,
          .moves = 6,
          .seconds = 8};
}

// One of each, with other values than those that it has by itself.
std::vector<Message> one_of_each() {
  return {ResultMessage{an_individual()},
          DepartureMessage{.trial = 3, .moves = 9},
          ImmigrantMessage{.individual = an_individual(), .replaces = true},
          ReportMessage{{.trial = 11, .step = 12, .value = 13.5}},
          QuotaRequest(),
          QuotaResponse{.evaluations = 14},
          StateRequest{.original = 15, .trial = 16},
          StateResponse{.trial = 17, .values = {18, 19}},
          TurnMessage{.over = 31},
          StopMessage(),
          StatusMessage{.evaluations = 20, .busy_s = 21.5, .best = 22.5}};
}

Bytes bytes_of(const Message& message) {
  Bytes bytes;
  put(bytes, message);
  return bytes;
}

TEST(Messages, ArriveAsTheyWereSent) {
  const std::vector<Message> messages = one_of_each();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  Bytes bytes;
  for (const Message& message : messages) put(bytes, message);
  ByteReader reading(bytes.data(), bytes.size());
  for (const Message& message : messages) {
    const Message arrived = get_message(reading);
    ASSERT_TRUE(reading.is_good());
    EXPECT_EQ(arrived.index(), message.index());
    EXPECT_EQ(bytes_of(arrived), bytes_of(message)) << "alternative " << message.index();
    EXPECT_NE(bytes_of(message), Bytes()) << "alternative " << message.index();
  }
  EXPECT_TRUE(reading.at_end());
  ByteReader again(bytes.data(), bytes.size());
  const Individual individual = std::get<ResultMessage>(get_message(again)).individual;
  EXPECT_EQ(individual.trial, 7);
  EXPECT_EQ(individual.values, (std::vector<double>{1.5, -2}));
  EXPECT_EQ(individual.tag, (Tag{1, 2, 3}));
  EXPECT_EQ(individual.seconds, 8);
  EXPECT_EQ(std::get<DepartureMessage>(get_message(again)).moves, 9);
}

TEST(Messages, AreRefusedWhereBytesAreMissing) {
  for (const Message& message : one_of_each()) {
    const Bytes bytes = bytes_of(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      ByteReader reading(bytes.data(), size);
      (void)get_message(reading);
      EXPECT_FALSE(reading.is_good()) << size << " bytes of alternative " << message.index();
    }
  }
}

TEST(Messages, AreRefusedWhereTheKindIsNone) {
  const Bytes bytes{std::byte{std::variant_size_v<Message>}, std::byte{0}};
  ByteReader reading(bytes.data(), bytes.size());
  (void)get_message(reading);
  EXPECT_FALSE(reading.is_good());
}

}  // namespace messages_test
