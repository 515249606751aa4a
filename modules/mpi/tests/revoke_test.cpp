// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <sched.h>

#include <algorithm>
#include <random>
#include <tw/mpi/collectives.hpp>

namespace revoke_test {

using tw::testing::world;

int last() { return world().size() - 1; }

// A meeting point for the ranks between tests; not on the revoked communicator.
int sum_of_ranks(const tw::Communicator& comm) {
  int sum = comm.rank();
  tw::mpi::allreduce(comm, {&sum, 1, tw::ElementType::int32}, tw::ReduceOp::sum);
  return sum;
}

std::string error_of_barrier(const tw::Communicator& comm) {
  return tw::testing::message_of<tw::RevokedError>([&] { comm.barrier(); });
}

TEST(Revoke, ReleasesThoseWhoWaitAndRefusesThoseWhoCome) {
  const tw::Communicator comm = world().dup();
  if (comm.rank() == last()) comm.revoke("the last rank gives up");
  const std::string error = error_of_barrier(comm);
  EXPECT_NE(error.find("was revoked during"), std::string::npos) << error;
  EXPECT_NE(error.find("the last rank gives up"), std::string::npos) << error;
  if (comm.rank() != last()) {
    EXPECT_NE(error.find(tw::concat("rank ", last(), " revoked it")), std::string::npos) << error;
  }
  EXPECT_TRUE(comm.revoked());
  EXPECT_THROW((void)comm.dup(), tw::RevokedError);
  EXPECT_THROW((void)comm.split(0, 0), tw::RevokedError);
  EXPECT_THROW((void)comm.split("all"), tw::RevokedError);
  EXPECT_FALSE(world().revoked());
  EXPECT_EQ(sum_of_ranks(world()), world().size() * last() / 2);
}

TEST(Revoke, ReachesThoseWhoOnlyTestAndThoseWhoDropped) {
  const tw::Communicator comm = world().dup();
  const auto begin = [&] { return tw::mpi::start(comm, {.collective = tw::Collective::barrier}, tw::mpi::barrier_transfer(comm)); };
  if (comm.rank() == last()) {
    comm.revoke("nobody waits");
  } else {
    (void)begin();
    tw::Work work = begin();
    const auto test_until_done = [&] {
      while (!work.test()) sched_yield();
    };
    EXPECT_THROW(test_until_done(), tw::RevokedError);
    EXPECT_EQ(tw::operations_in_flight(comm), 0);
  }
}

TEST(Revoke, ReachesCommunicatorsMadeFromIt) {
  const tw::Communicator comm = world().dup();
  const tw::Communicator child = comm.dup();
  const tw::Communicator grandchild = child.split(0, -child.rank());
  if (comm.rank() == last()) comm.revoke("enough");
  EXPECT_NE(error_of_barrier(grandchild).find("enough"), std::string::npos);
  EXPECT_TRUE(child.revoked());
  EXPECT_FALSE(world().revoked());
}

TEST(Revoke, DoesNotReachTheParent) {
  const tw::Communicator comm = world().dup();
  const tw::Communicator child = comm.dup();
  child.revoke("only here");  // on all ranks at once
  EXPECT_NE(error_of_barrier(child).find("only here"), std::string::npos);
  EXPECT_EQ(error_of_barrier(comm), "nothing thrown");
}

// The root starts after rank 1 has already given up, and before it learns that the last rank revoked the communicator.
TW_TEST_ON(Revoke, LeavesTheMemoryOfACallThatItEndedAlone, {.least = 3}) {
  const tw::Communicator comm = world().dup();
  const tw::Communicator words = world().dup();
  std::vector<int> values(100, comm.rank());
  const auto broadcast = [&] { tw::mpi::broadcast(comm, {values.data(), 100, tw::ElementType::int32}, tw::Rank(0)); };
  if (comm.rank() == last()) comm.revoke("too late");
  if (comm.rank() != 0) {
    EXPECT_THROW(broadcast(), tw::RevokedError);
  }
  words.barrier();
  if (comm.rank() == 0) {
    try {
      broadcast();
    } catch (const tw::RevokedError&) {  // it learnt so only after it had sent
    }
  }
  for (int i = 0; i < 10; ++i) words.barrier();
  EXPECT_EQ(values, std::vector<int>(100, comm.rank()));
}

TEST(Revoke, LeavesSubsetAsAWayToGoOn) {
  const tw::Communicator comm = world().dup();
  comm.revoke("");
  std::vector<tw::Rank> members;
  for (int rank = last(); rank >= 0; rank -= 2) members.emplace_back(rank);  // every second, in reverse
  if ((last() - comm.rank()) % 2 == 0) {
    const tw::Communicator rest = comm.subset(members);
    EXPECT_EQ(rest.size(), static_cast<int>(members.size()));
    EXPECT_EQ(rest.rank(), (last() - comm.rank()) / 2);
    EXPECT_EQ(error_of_barrier(rest), "nothing thrown");
    EXPECT_EQ(error_of_barrier(rest.dup()), "nothing thrown");
  }
}

TW_TEST_ON(Subset, SaysWhenNotAllMembersCome, {.least = 2}) {
  const tw::Communicator comm = world().dup();
  if (comm.rank() == 0) {
    try {
      (void)comm.subset({tw::Rank(0), tw::Rank(1)}, std::chrono::milliseconds(50));
      ADD_FAILURE() << "no exception";
    } catch (const tw::Error& error) {
      EXPECT_NE(std::string(error.what()).find("within 50 ms"), std::string::npos) << error.what();
    }
    comm.revoke("nobody comes");  // what it started never completes
  }
  EXPECT_THROW((void)comm.subset({tw::Rank(comm.size())}), tw::ContractError);
  EXPECT_THROW((void)comm.subset({}), tw::ContractError);
}

TW_TEST_ON(Subset, MayBeTriedAgainByWhoeverCameTooEarly, {.least = 2}) {
  const tw::Communicator comm = world().dup();
  const std::vector<tw::Rank> pair{tw::Rank(0), tw::Rank(1)};
  const auto try_for = [&](std::chrono::milliseconds timeout) { (void)comm.subset(pair, timeout); };
  if (comm.rank() == 1) {
    EXPECT_THROW(try_for(std::chrono::milliseconds(20)), tw::Error);
  }
  world().barrier();
  if (comm.rank() == 0) {
    EXPECT_THROW(try_for(std::chrono::milliseconds(20)), tw::Error);  // rank 1 has been here, and has left
  }
  world().barrier();
  if (comm.rank() < 2) {
    for (int turn = 0; turn < 3; ++turn) {
      const tw::Communicator both = comm.subset(pair);
      EXPECT_EQ(sum_of_ranks(both), 1);
    }
    const tw::Communicator turned = comm.subset({tw::Rank(1), tw::Rank(0)});
    EXPECT_EQ(turned.rank(), 1 - comm.rank());
  }
}

// Some members are already in MPI's call while others still meet, or meet for the next subset: neither may receive the other's messages.
TEST(Subset, ComesAsOftenAsItIsWanted) {
  const tw::Communicator comm = world().dup();
  std::minstd_rand draw;
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<tw::Rank> members;
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (draw() % 3 != 0) members.emplace_back(rank);
    }
    if (std::count(members.begin(), members.end(), comm.rank()) == 0) continue;
    EXPECT_EQ(comm.subset(members).size(), static_cast<int>(members.size()));
  }
}

TEST(Split, GroupsByName) {
  const std::string group = world().rank() % 2 == 0 ? "even" : "odd";
  const tw::Communicator part = world().split(group);
  EXPECT_EQ(part.size(), (world().size() + 1 - world().rank() % 2) / 2);
  EXPECT_EQ(part.rank(), world().rank() / 2);
  EXPECT_NE(part.name().find(group), std::string::npos);
}

TEST(Split, ByNode) {
  EXPECT_EQ(world().split_by_node().size(), world().size());  // all ranks of a test are on this machine
}

}  // namespace revoke_test
