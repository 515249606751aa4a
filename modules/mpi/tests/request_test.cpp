// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <memory>
#include <vector>

namespace {

using tw::testing::world;

struct Numbers {
  explicit Numbers(int value) : values(1000, value) {}
  std::vector<int> values;
  tw::mpi::Buffer buffer() { return {values.data(), static_cast<int64_t>(values.size()), tw::mpi::Datatype::int32}; }
};

TEST(Request, CompletesAndLetsItsMemoryGo) {
  auto numbers = std::make_shared<Numbers>(world().rank() + 1);
  const std::weak_ptr<Numbers> memory = numbers;
  auto request = tw::mpi::iallreduce(world(), numbers->buffer(), tw::mpi::Op::max, numbers);
  EXPECT_EQ(memory.use_count(), 2);
  request.wait();
  EXPECT_EQ(memory.use_count(), 1);
  for (const int value : numbers->values) EXPECT_EQ(value, world().size());
  EXPECT_TRUE(request.test());
  request.wait();  // again: nothing happens
}

TEST(Request, AnEmptyOneIsComplete) {
  tw::mpi::Request request;
  EXPECT_TRUE(request.test());
  request.wait();
}

TEST(Request, ADroppedOneGoesOnAndKeepsItsMemory) {
  auto numbers = std::make_shared<Numbers>(1);
  const std::weak_ptr<Numbers> memory = numbers;
  {
    const auto buffer = numbers->buffer();
    auto request = tw::mpi::iallreduce(world(), buffer, tw::mpi::Op::sum, std::move(numbers));
    if (world().rank() != 0) request.wait();
  }
  // Operations that begin later complete what was dropped. How many it takes is MPI's affair, so all ranks go on together until it is done.
  bool released_everywhere = false;
  for (int round = 0; round < 10000 && !released_everywhere; ++round) {
    int released = memory.expired() ? 1 : 0;
    auto request = tw::mpi::iallreduce(world(), {&released, 1, tw::mpi::Datatype::int32}, tw::mpi::Op::min, nullptr);
    request.wait();
    released_everywhere = released == 1;
  }
  EXPECT_TRUE(released_everywhere);
}

TEST(Request, ManyAreInFlightAndCompleteInAnyOrder) {
  std::vector<std::shared_ptr<Numbers>> all;
  std::vector<tw::mpi::Request> requests;
  for (int i = 0; i < 20; ++i) {
    all.push_back(std::make_shared<Numbers>(i));
    requests.push_back(tw::mpi::iallreduce(world(), all.back()->buffer(), tw::mpi::Op::sum, all.back()));
  }
  for (size_t i = requests.size(); i-- > 0;) requests[i].wait();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(all[static_cast<size_t>(i)]->values.back(), i * world().size());
}

}  // namespace
