// SPDX-License-Identifier: Apache-2.0
// Messages longer than one MPI call allows are cut. The limit is lowered to 1000 here, so that small messages count as long; `make accept` runs with
// really long ones.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/mpi.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/mailbox.hpp>
#include <vector>

namespace {

const tw::Communicator* comm = nullptr;

constexpr int64_t count = 12345;

std::vector<int64_t> numbers_of(int rank) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), int64_t{1000000} * rank);
  return numbers;
}

void run(const tw::Call& call, std::unique_ptr<tw::mpi::Transfer> transfer) { tw::mpi::start(*comm, call, std::move(transfer)).wait(); }

tw::mpi::Buffer buffer_of(std::vector<int64_t>& numbers) { return {numbers.data(), static_cast<int64_t>(numbers.size()), tw::ElementType::int64}; }

TEST(LargeMessages, AllreduceAndReduce) {
  const int ranks = comm->size();
  std::vector<int64_t> expected(count);
  for (int64_t i = 0; i < count; ++i) expected[static_cast<size_t>(i)] = ranks * i + 1000000LL * ranks * (ranks - 1) / 2;
  auto all = numbers_of(comm->rank());
  tw::mpi::allreduce(*comm, buffer_of(all), tw::ReduceOp::sum);
  EXPECT_EQ(all, expected);
  auto at_root = numbers_of(comm->rank());
  run({.collective = tw::Collective::reduce}, tw::mpi::reduce_transfer(*comm, buffer_of(at_root), tw::ReduceOp::sum, tw::Rank(0)));
  EXPECT_EQ(at_root, comm->rank() == 0 ? expected : numbers_of(comm->rank()));
}

TEST(LargeMessages, Broadcast) {
  auto numbers = numbers_of(comm->rank());
  tw::mpi::broadcast(*comm, buffer_of(numbers), tw::Rank(comm->size() - 1));
  EXPECT_EQ(numbers, numbers_of(comm->size() - 1));
}

TEST(LargeMessages, AllgatherOfUnequalSizes) {
  const auto mine = numbers_of(comm->rank());
  std::vector<int64_t> sizes;
  std::vector<int64_t> expected;
  for (int rank = 0; rank < comm->size(); ++rank) {
    const auto theirs = numbers_of(rank);
    sizes.push_back((count - rank) * 8);
    expected.insert(expected.end(), theirs.begin(), theirs.end() - rank);
  }
  std::vector<int64_t> all(expected.size());
  tw::mpi::allgather(*comm, std::as_bytes(std::span(mine).first(static_cast<size_t>(count - comm->rank()))), std::as_writable_bytes(std::span(all)),
                     sizes);
  EXPECT_EQ(all, expected);

  std::fill(all.begin(), all.end(), 0);
  const auto bytes = std::as_writable_bytes(std::span(all));
  const auto begin = static_cast<size_t>(std::accumulate(sizes.begin(), sizes.begin() + comm->rank(), int64_t{0}));
  const auto in_place = bytes.subspan(begin, static_cast<size_t>((count - comm->rank()) * 8));
  std::memcpy(in_place.data(), mine.data(), in_place.size());
  run({.collective = tw::Collective::allgather}, tw::mpi::allgather_transfer(*comm, in_place, bytes.data(), sizes));
  EXPECT_EQ(all, expected);
}

TEST(LargeMessages, AlltoallAndReduceScatter) {
  const int ranks = comm->size();
  std::vector<int64_t> input;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto part = numbers_of(10 * comm->rank() + rank);
    input.insert(input.end(), part.begin(), part.end());
  }
  std::vector<int64_t> output(input.size());
  run({.collective = tw::Collective::alltoall},
      tw::mpi::alltoall_transfer(*comm, reinterpret_cast<const std::byte*>(input.data()), reinterpret_cast<std::byte*>(output.data()), count * 8));
  std::vector<int64_t> expected;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto part = numbers_of(10 * rank + comm->rank());
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(output, expected);

  std::vector<int64_t> part(count);
  run({.collective = tw::Collective::reduce_scatter}, tw::mpi::reduce_scatter_transfer(*comm, buffer_of(input), part.data(), tw::ReduceOp::max));
  EXPECT_EQ(part, numbers_of(10 * (ranks - 1) + comm->rank()));
}

TEST(LargeMessages, SendAndReceive) {
  const int next = (comm->rank() + 1) % comm->size();
  const int previous = (comm->rank() + comm->size() - 1) % comm->size();
  auto outgoing = numbers_of(comm->rank());
  std::vector<int64_t> incoming(count);
  tw::Work received = tw::mpi::start(*comm, {.collective = tw::Collective::receive, .peer = previous},
                                     tw::mpi::receive_transfer(*comm, buffer_of(incoming), tw::Rank(previous), tw::Tag(3)));
  run({.collective = tw::Collective::send, .peer = next}, tw::mpi::send_transfer(*comm, buffer_of(outgoing), tw::Rank(next), tw::Tag(3)));
  received.wait();
  EXPECT_EQ(incoming, numbers_of(previous));
}

/// A message cut into pieces would arrive as several.
TEST(LargeMessages, LettersAreRefused) {
  tw::mpi::Mailbox mailbox(*comm);
  EXPECT_THROW(mailbox.send(std::vector<std::byte>(1001), comm->rank()), tw::ContractError);
  mailbox.send(std::vector<std::byte>(1000), comm->rank());
  const auto message = mailbox.take_within(std::chrono::seconds(30));
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->bytes.size(), 1000U);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const tw::Environment mpi(argc, argv, {.largest_message = 1000});
  const tw::Communicator duplicate = mpi.world().dup();
  comm = &duplicate;
  return RUN_ALL_TESTS();
}
