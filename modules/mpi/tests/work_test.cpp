// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <memory>
#include <optional>
#include <tw/mpi/collectives.hpp>
#include <vector>

namespace work_test {

using tw::testing::world;

struct Numbers {
  explicit Numbers(int value) : values(1000, value) {}
  std::vector<int> values;
};

tw::Work begin_allreduce(const tw::Communicator& comm, std::shared_ptr<Numbers> numbers, tw::ReduceOp op) {
  const tw::mpi::Buffer buffer{numbers->values.data(), static_cast<int64_t>(numbers->values.size()), tw::ElementType::int32};
  return tw::mpi::start(comm, {.collective = tw::Collective::allreduce, .op = op, .type = buffer.type, .count = buffer.count},
                        tw::mpi::allreduce_transfer(comm, buffer, op), [kept = std::move(numbers)] {});
}

TEST(Work, CompletesAndLetsItsMemoryGo) {
  auto numbers = std::make_shared<Numbers>(world().rank() + 1);
  tw::Work work = begin_allreduce(world(), numbers, tw::ReduceOp::max);
  work.wait();
  EXPECT_EQ(numbers.use_count(), 1);
  for (const int value : numbers->values) EXPECT_EQ(value, world().size());
  EXPECT_TRUE(work.test());
  work.wait();  // again: does nothing
  EXPECT_TRUE(work.wait_for(std::chrono::nanoseconds(0)));
}

TEST(Work, AnEmptyOneIsComplete) {
  tw::Work work;
  EXPECT_TRUE(work.test());
  work.wait();
}

TEST(Work, ADroppedOneGoesOnAndKeepsItsMemory) {
  auto numbers = std::make_shared<Numbers>(1);
  const std::weak_ptr<Numbers> memory = numbers;
  {
    tw::Work work = begin_allreduce(world(), std::move(numbers), tw::ReduceOp::sum);
    if (world().rank() != 0) work.wait();
  }
  // Operations that start later complete the dropped one. How many it takes depends on MPI, so all ranks continue until it is done.
  bool released_everywhere = false;
  for (int round = 0; round < 10000 && !released_everywhere; ++round) {
    int released = memory.expired() ? 1 : 0;
    tw::mpi::allreduce(world(), {&released, 1, tw::ElementType::int32}, tw::ReduceOp::min);
    released_everywhere = released == 1;
  }
  EXPECT_TRUE(released_everywhere);
}

// The engine is the last owner of the communicator. It releases it inside free_communicators(), where rank 0 comes last.
TEST(Work, ADroppedOneMayEndWhileCommunicatorsAreFreed) {
  for (int turn = 0; turn < 20; ++turn) {
    std::optional<tw::Communicator> copy = world().dup();
    if (world().rank() == 0) tw::mpi::broadcast(world(), {&turn, 1, tw::ElementType::int32}, tw::Rank(world().size() - 1));
    (void)tw::mpi::start(*copy, {.collective = tw::Collective::barrier}, tw::mpi::barrier_transfer(*copy));
    copy.reset();
    if (world().rank() != 0) tw::mpi::broadcast(world(), {&turn, 1, tw::ElementType::int32}, tw::Rank(world().size() - 1));
    tw::Environment::adopt().free_communicators();
  }
}

TEST(Work, OutlivesItsCommunicator) {
  auto numbers = std::make_shared<Numbers>(1);
  tw::Work work;
  {
    const tw::Communicator copy = world().dup();
    work = begin_allreduce(copy, numbers, tw::ReduceOp::sum);
  }
  work.wait();
  for (const int value : numbers->values) EXPECT_EQ(value, world().size());
}

TEST(Work, ManyAreInFlightAndCompleteInAnyOrder) {
  std::vector<std::shared_ptr<Numbers>> all;
  std::vector<tw::Work> works;
  for (int i = 0; i < 20; ++i) {
    all.push_back(std::make_shared<Numbers>(i));
    works.push_back(begin_allreduce(world(), all.back(), tw::ReduceOp::sum));
  }
  for (size_t i = works.size(); i-- > 0;) works[i].wait();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(all[static_cast<size_t>(i)]->values.back(), i * world().size());
}

/// Fails after this many calls of advance().
class Failing : public tw::mpi::Transfer {
 public:
  explicit Failing(int after) : left_(after) {}
  bool advance() override {
    if (left_-- == 0) throw tw::Error("the cable is cut");
    return false;
  }

 private:
  int left_;
};

tw::Work begin_failing(int after) { return tw::mpi::start(world(), {.collective = tw::Collective::alltoall}, std::make_unique<Failing>(after)); }

TEST(Work, AllAreWaitedForThoughOneFails) {
  auto numbers = std::make_shared<Numbers>(1);
  std::vector<tw::Work> works;
  works.push_back(begin_failing(0));
  works.push_back(begin_failing(3));
  works.push_back(begin_allreduce(world(), numbers, tw::ReduceOp::sum));
  EXPECT_THROW(tw::wait_all(works), tw::Error);
  EXPECT_THROW((void)works[1].test(), tw::Error);  // one step further it would not have failed yet
  EXPECT_EQ(numbers.use_count(), 1);
  EXPECT_EQ(numbers->values.back(), world().size());
}

TEST(Work, WhatMadeADroppedOneFailIsLogged) {
  for (const int after : {0, 3}) {
    testing::internal::CaptureStderr();
    {
      tw::Work work = begin_failing(after);  // dropped in flight, or after it has failed
    }
    while (tw::operations_in_flight(world()) > 0) tw::progress(world());
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("a dropped operation failed: alltoall"), std::string::npos) << log;
    EXPECT_NE(log.find("the cable is cut"), std::string::npos) << log;
  }
  testing::internal::CaptureStderr();
  {
    tw::Work work = begin_failing(0);
    EXPECT_THROW(work.wait(), tw::Error);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TW_TEST_ON(Work, ATimedWaitGivesUpAndTheOperationGoesOn, {.least = 2}) {
  // Rank 0 starts long before the others, which wait for its message that the time is over.
  int over = 0;
  const tw::Communicator words = world().dup();
  if (world().rank() == 0) {
    tw::Work work = tw::mpi::start(world(), {.collective = tw::Collective::barrier}, tw::mpi::barrier_transfer(world()));
    EXPECT_FALSE(work.wait_for(std::chrono::milliseconds(20)));
    EXPECT_FALSE(work.test());
    tw::mpi::broadcast(words, {&over, 1, tw::ElementType::int32}, tw::Rank(0));
    work.wait();
  } else {
    tw::mpi::broadcast(words, {&over, 1, tw::ElementType::int32}, tw::Rank(0));
    world().barrier();
  }
}

}  // namespace work_test
