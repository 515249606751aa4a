// SPDX-License-Identifier: Apache-2.0
// Rank 0 on one node, the others together on a second one: to a link, a node is a list of ranks.
#include "link.hpp"

#include "mpi_test.hpp"

#include <torch/torch.h>

#include <numeric>
#include <tw/comm.hpp>
#include <tw/mpi/error.hpp>

namespace link_test {

using tw::testing::world;

std::vector<int> neighbours() {
  if (world().rank() == 0) return {0};
  std::vector<int> others(static_cast<size_t>(world().size() - 1));
  std::iota(others.begin(), others.end(), 1);
  return others;
}

TEST(Link, SlotsMayBeOf64BytesForEachRank) {
  const int64_t least = 64 * std::max(1, world().size() - 1);
  const tw::Communicator comm = world().dup();
  EXPECT_EQ(tw::Link::make(comm, {.bytes = least}, neighbours()).channel()->slot_bytes(), least);
  const at::Tensor ranks = torch::full({100}, int{comm.rank()});
  tw::allreduce(comm, ranks, tw::ReduceOp::sum);
  EXPECT_TRUE(ranks.eq(comm.size() * (comm.size() - 1) / 2).all().item<bool>());
}

// The missing rank arrives after the others' timed waits have given up, and nothing is lost.
TEST(Link, TheFirstUseOfACommunicatorDoesNotBlock) {
  for (int missing = 0; missing < world().size(); ++missing) {
    const tw::Communicator comm = world().dup();
    if (comm.rank() == missing && comm.size() > 1) world().barrier();
    tw::Work first = tw::ibarrier(comm);
    if (comm.size() > 1 && comm.rank() != missing) {
      EXPECT_FALSE(first.wait_for(std::chrono::milliseconds(20)));
      world().barrier();
    }
    first.wait();
  }
}

// Operations started while the link is being made keep their order, whatever other traffic is interleaved at different times on each rank.
TEST(Link, WhatWaitsForTheFirstUseKeepsItsOrder) {
  for (int round = 0; round < 20; ++round) {
    const tw::Communicator comm = world().dup();
    std::vector<at::Tensor> sums;
    std::vector<tw::Work> works;
    for (int i = 0; i < 10; ++i) {
      sums.push_back(torch::full({1 + 100 * i}, comm.rank() + i, torch::kLong));
      works.push_back(i % 3 == 2 ? tw::ibroadcast(comm, sums.back(), tw::Rank(i % comm.size()))
                                 : tw::iallreduce(comm, sums.back(), tw::ReduceOp::sum));
      if (i == 3 && round % 2 == 0) tw::expect_same_on_all_ranks(comm, "the round", {tw::concat(round)});
      if ((i + comm.rank() + round) % 4 == 0) (void)works.back().test();
    }
    const at::Tensor shared = tw::shared_tensor(comm, {5}, torch::kLong);
    shared.fill_(1);
    tw::allreduce(comm, shared, tw::ReduceOp::sum);
    EXPECT_TRUE(shared.eq(comm.size()).all().item<bool>());
    tw::wait_all(works);
    for (int i = 0; i < 10; ++i) {
      const int expected = i % 3 == 2 ? i % comm.size() + i : comm.size() * (comm.size() - 1) / 2 + i * comm.size();
      EXPECT_TRUE(sums[static_cast<size_t>(i)].eq(expected).all().item<bool>()) << i;
    }
  }
}

/// Rank 0 makes the link before the barrier, so that the exchange starts first; the others wait for both at once. If rank 0 started MPI's operations
/// in a different order, MPI would match one with the other.
TEST(Link, BlockingCallsComeAfterWhatWaits) {
  for (int round = 0; round < 20; ++round) {
    const tw::Communicator comm = world().dup();
    const at::Tensor mine = torch::full({comm.size()}, int{comm.rank()}, torch::kLong);
    const at::Tensor theirs = torch::zeros({comm.size()}, torch::kLong);
    tw::Work exchange = tw::ialltoall(comm, mine, theirs);
    for (int i = 0; comm.rank() == 0 && i < 2000; ++i) (void)exchange.test();
    comm.barrier();
    tw::expect_same_on_all_ranks(comm, "the round", {tw::concat(round)});
    exchange.wait();
    EXPECT_TRUE(theirs.equal(torch::arange(comm.size(), torch::kLong)));
  }
}

/// A refused call starts nothing that outlives the communicator.
TEST(Link, ARefusedCallBeginsNothing) {
  for (int round = 0; round < 20; ++round) {
    const tw::Communicator comm = world().dup();
    EXPECT_THROW(tw::allreduce(comm, torch::ones({2, 2}).to_sparse(), tw::ReduceOp::sum), tw::ContractError);
  }
  tw::barrier(world());
}

TEST(Link, IsRevokedWhileItIsMade) {
  const tw::Communicator comm = world().dup();
  if (comm.rank() == 0) {
    comm.revoke("before the first use");
  } else {
    EXPECT_THROW(tw::barrier(comm), tw::RevokedError);
  }
  EXPECT_THROW(tw::barrier(comm), tw::RevokedError);
}

}  // namespace link_test
