// SPDX-License-Identifier: Apache-2.0
// Ten thousand rounds of mixed operations leak nothing: no memory, file descriptor, mapping, or operation in flight.
#include "mpi_test.hpp"

#include <malloc.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <tw/comm.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <vector>

namespace soak_test {

using tw::testing::world;

struct Holdings {
  int64_t resident_kib = 0;
  int64_t descriptors = 0;
  int64_t mappings = 0;
};

Holdings holdings() {
  ::malloc_trim(0);
  Holdings now;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.resident_kib;
  }
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++now.descriptors;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  return now;
}

void one_round(const tw::Communicator& comm, int round) {
  const int64_t size = 1 + round * 37 % 3000;
  const at::Tensor tensor = torch::ones({size});
  const at::Tensor all = torch::empty({comm.size(), size});
  tw::allreduce(comm, tensor, tw::ReduceOp::max);
  tw::Work first = tw::iallgather(comm, tensor, all);
  tw::Work second = tw::ibroadcast(comm, torch::ones({size}), tw::Rank(round % comm.size()));  // not `tensor`, which `first` still reads
  {
    [[maybe_unused]] const tw::Work dropped = tw::iallreduce(comm, torch::ones({7}, torch::kLong), tw::ReduceOp::sum);
  }
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  tw::Work ring = tw::isendrecv(comm, torch::ones({5}), tw::Rank(next), torch::empty({5}), tw::Rank(previous));
  second.wait();
  first.wait();
  ring.wait();
  if (round % 4 == 0) tw::reduce(comm, torch::ones({9}, torch::kHalf).t(), tw::ReduceOp::sum, tw::Rank(0));
  if (round % 16 == 0) {
    const at::Tensor shared = tw::shared_tensor(comm, {size}, torch::kFloat);
    tw::allreduce(comm, shared, tw::ReduceOp::sum);
  }
}

TEST(Soak, TenThousandRoundsLeakNothing) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr int rounds = 2000;  // ten times slower, and freed memory is kept for a while: its size means nothing here
  constexpr int64_t allowed_kib = 1 << 20;
#else
  constexpr int rounds = 10000;
  // The heap and Open MPI's pools grow in steps. A leak of 100 bytes per operation would be 4 MiB, one of 100 bytes per round 0.9 MiB.
  constexpr int64_t allowed_kib = 800;
#endif
  constexpr int warm_up = 1000;
  const tw::Communicator comm = world().dup();
  const tw::Communicator over_mpi = world().dup();
  tw::choose_backend(over_mpi, "mpi");
  Holdings before;
  for (int round = 0; round < rounds; ++round) {
    if (round == warm_up) before = holdings();
    one_round(round % 2 == 0 ? comm : over_mpi, round);
  }
  // The last dropped operations end when their peers have caught up. A barrier does not guarantee that, least of all one on another communicator.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (tw::operations_in_flight(comm) > 0 && std::chrono::steady_clock::now() < deadline) tw::progress(comm);
  const Holdings after = holdings();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LT(after.resident_kib - before.resident_kib, allowed_kib);
  EXPECT_LE(after.mappings - before.mappings, 8);
  EXPECT_EQ(tw::operations_in_flight(comm), 0);
}

TEST(Soak, CommunicatorsAreFreedWhereAllAskForIt) {
  tw::Environment here = tw::Environment::adopt();  // shares the state of the one in main()
  const tw::Communicator kept = world().dup();
  here.free_communicators();
  const int64_t stay = here.communicators_to_free();  // revoked ones of other tests
  for (int round = 0; round < 3; ++round) {
    const tw::Communicator copy = world().dup();
    tw::barrier(copy);
  }
  EXPECT_EQ(here.communicators_to_free(), stay + 3);
  here.free_communicators();
  EXPECT_EQ(here.communicators_to_free(), stay);
  tw::barrier(kept);
}

// MPICH's limit of 2,048 would take minutes on few cores.
TEST(Soak, CommunicatorsAreFreedAsOthersAreMade) {
  const tw::Environment here = tw::Environment::adopt();
  const int64_t before = here.communicators_to_free();
  const tw::Communicator all = world().dup();
  std::vector<tw::Rank> members;
  for (int rank = all.size() - 1; rank >= 0; --rank) members.emplace_back(rank);
  const std::vector<std::function<void()>> ways{[&] { (void)all.dup().split(all.rank() % 2, 0); },
                                                [&] { (void)all.split(all.rank() % 2 == 0 ? "even" : "odd"); }, [&] { (void)all.split_by_node(); },
                                                [&] { (void)all.subset(members); }};
  for (const auto& make : ways) {
    for (int round = 0; round < 100; ++round) make();
    EXPECT_LE(here.communicators_to_free(), before + 64);
  }
}

/// As in a search: a rank gives up while others wait for it, all ranks give up, or one is late for longer than the watchdog allows. Afterwards all
/// continue on another communicator.
TEST(Soak, CommunicatorsOfFailedTrialsAreFreed) {
  if (world().audited()) GTEST_SKIP() << "an audit sends messages that a rank which gives up never receives, and communicators keep those";
  tw::Environment here = tw::Environment::adopt();
  const int64_t before = here.communicators_to_free();
  const tw::Communicator worker = world().dup();
  std::vector<tw::Rank> members;
  for (int rank = 0; rank < worker.size(); ++rank) members.emplace_back(rank);
  for (int round = 0; round < 120; ++round) {
    const bool is_slow = round % 40 == 7;
    if (is_slow) here.watch(std::chrono::milliseconds(1), std::chrono::hours(1));
    const tw::Communicator trial = worker.subset(members);
    const tw::Communicator part = trial.dup();
    tw::barrier(trial);
    const auto fails = [&] {
      const bool gives_up = round % 3 == 0 || worker.rank() == worker.size() - 1;
      const auto begin = std::chrono::steady_clock::now();
      while (is_slow && gives_up && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(5)) continue;
      if (gives_up) throw tw::Error("given up");
      while (true) tw::allreduce(trial, torch::ones({1000}), tw::ReduceOp::sum);
    };
    EXPECT_THROW(tw::revoke_on_exception(trial, fails), tw::Error);
    EXPECT_THROW(part.barrier(), tw::RevokedError);
    worker.barrier();
    if (is_slow) here.watch(std::chrono::seconds(60), std::chrono::seconds(600));
    EXPECT_LE(here.communicators_to_free(), before + 64);
  }
}

TEST(Soak, CommunicatorsOfOneRankAreFreedAsOthersAreMade) {
  const tw::Environment here = tw::Environment::adopt();
  const tw::Communicator alone = world().split(world().rank(), 0);
  const int64_t before = here.communicators_to_free();
  for (int round = 0; round < 200; ++round) (void)alone.dup();
  EXPECT_LE(here.communicators_to_free(), before + 1);
}

// MPICH and Open MPI reuse a freed communicator's number. A message not received before the revocation would arrive in the new communicator.
TEST(Soak, RevokedCommunicatorsKeepWhatNobodyReceived) {
  tw::Environment here = tw::Environment::adopt();
  const int rank = world().rank();
  const int next = (rank + 1) % world().size();
  const int previous = (rank + world().size() - 1) % world().size();
  here.free_communicators();
  const int64_t before = here.communicators_to_free();
  constexpr int rounds = 8;
  for (int round = 0; round < rounds; ++round) {
    {
      const tw::Communicator comm = world().dup();
      tw::choose_backend(comm, "mpi");
      tw::isend(comm, torch::full({2}, -1.0), tw::Rank(next)).wait();
      world().barrier();
      comm.revoke("nobody receives it");
    }
    here.free_communicators();
    const tw::Communicator comm = world().dup();
    tw::choose_backend(comm, "mpi");
    const at::Tensor received = torch::empty({2});
    tw::isendrecv(comm, torch::full({2}, 1.0 * rank), tw::Rank(next), received, tw::Rank(previous)).wait();
    EXPECT_TRUE(torch::equal(received, torch::full({2}, 1.0 * previous))) << "round " << round << ": " << received;
  }
  EXPECT_GE(here.communicators_to_free(), before + rounds);
}

}  // namespace soak_test
