// SPDX-License-Identifier: Apache-2.0
// A host program owns MPI: it initialises and finalises it, and Torchweave is set up and torn down in between. For the same reason this file does not
// use the tests' main().
#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/mpi.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/interop.hpp>
#include <tw/mpi/mailbox.hpp>
#include <tw/mpi/rpc_client.hpp>

namespace {

bool finalised() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

TEST(Adopt, LeavesMpiRunning) {
  for (int visit = 0; visit < 3; ++visit) {
    const auto mpi = tw::Environment::adopt();
    EXPECT_TRUE(mpi.adopted());
    const auto comm = tw::Communicator::duplicate_of(MPI_COMM_WORLD);
    comm.barrier();
  }
  EXPECT_FALSE(finalised());
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Adopt, AnOrdinaryEnvironmentAdoptsToo) {
  {
    const tw::Environment mpi;
  }
  EXPECT_FALSE(finalised());
}

TEST(Adopt, AnExceptionThatTheHostCatchesEndsNothing) {
  EXPECT_THROW(
      {
        const auto mpi = tw::Environment::adopt();
        const auto comm = tw::Communicator::duplicate_of(MPI_COMM_WORLD);
        throw tw::Error("no surrogate today");
      },
      tw::Error);
  EXPECT_FALSE(finalised());
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Adopt, OneInsideAnotherLeavesTheOtherWorking) {
  const auto outer = tw::Environment::adopt();
  const auto comm = tw::Communicator::duplicate_of(MPI_COMM_WORLD);
  {
    const auto inner = tw::Environment::adopt();
  }
  comm.dup().barrier();
  (void)tw::Communicator::duplicate_of(MPI_COMM_WORLD);
}

TEST(Adopt, MakesANewStateThoughACommunicatorOutlivesTheOldOne) {
  std::optional<tw::Communicator> outlives;
  {
    const auto mpi = tw::Environment::adopt({.audit = false});
    outlives = mpi.world().dup();
  }
  const auto mpi = tw::Environment::adopt({.audit = true});
  EXPECT_TRUE(mpi.world().audited());
  {
    const auto comm = mpi.world().dup();
  }
  EXPECT_EQ(mpi.communicators_to_free(), 1);
}

TEST(Adopt, KeepsTheHostsErrorHandler) {
  const auto mpi = tw::Environment::adopt();
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  EXPECT_EQ(handler, MPI_ERRORS_ARE_FATAL);
}

TEST(Adopt, WithoutAnEnvironmentTheErrorNamesTheRemedy) {
  try {
    (void)tw::Communicator::duplicate_of(MPI_COMM_WORLD);
    ADD_FAILURE() << "no exception";
  } catch (const tw::NotInitialisedError& error) {
    EXPECT_NE(std::string(error.what()).find("tw::Environment::adopt()"), std::string::npos) << error.what();
  }
}

TEST(Adopt, CallsAfterTheEnvironmentHasGoneSaySo) {
  std::optional<tw::Communicator> outlives;
  {
    const auto mpi = tw::Environment::adopt();
    outlives = mpi.world().dup();
  }
  int value = 1;
  const std::byte byte{};
  EXPECT_THROW(outlives->barrier(), tw::NotInitialisedError);
  EXPECT_THROW((void)outlives->dup(), tw::NotInitialisedError);
  EXPECT_THROW((void)outlives->split("all"), tw::NotInitialisedError);
  EXPECT_THROW((void)outlives->split_by_node(), tw::NotInitialisedError);
  EXPECT_THROW((void)outlives->subset({outlives->rank()}), tw::NotInitialisedError);
  EXPECT_THROW(outlives->revoke("it is late"), tw::NotInitialisedError);
  EXPECT_THROW(tw::mpi::allreduce(*outlives, {&value, 1, tw::ElementType::int32}, tw::ReduceOp::sum), tw::NotInitialisedError);
  EXPECT_THROW((void)tw::mpi::send_aside_transfer(*outlives, {&byte, 1}, outlives->rank()), tw::NotInitialisedError);
  EXPECT_THROW((void)tw::mpi::Mailbox(*outlives), tw::NotInitialisedError);
  EXPECT_THROW((void)tw::mpi::RpcClient(*outlives).call(outlives->rank(), {}), tw::NotInitialisedError);
  try {
    outlives->barrier();
  } catch (const tw::NotInitialisedError& error) {
    EXPECT_NE(std::string(error.what()).find("communication on 'world/dup', whose Environment no longer exists"), std::string::npos) << error.what();
  }
}

TEST(Adopt, RefusesOptionsThatMakeNoSense) {
  using std::chrono::milliseconds;
  EXPECT_THROW((void)tw::Environment::adopt({.largest_message = 0}), tw::ContractError);
  EXPECT_THROW((void)tw::Environment::adopt({.stall_warning = milliseconds(0)}), tw::ContractError);
  EXPECT_THROW((void)tw::Environment::adopt({.stall_abort = milliseconds(-1)}), tw::ContractError);
  EXPECT_THROW((void)tw::Environment::adopt({.drain_timeout = milliseconds(-1)}), tw::ContractError);
}

// Starts an operation and drops all handles to it. @return the memory that it keeps alive
std::weak_ptr<int> drop_an_allreduce() {
  const auto comm = tw::Communicator::duplicate_of(MPI_COMM_WORLD);
  const auto number = std::make_shared<int>(1);
  (void)tw::mpi::start(comm, {.collective = tw::Collective::allreduce},
                       tw::mpi::allreduce_transfer(comm, {number.get(), 1, tw::ElementType::int32}, tw::ReduceOp::sum), [number] {});
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool refused = false;
  try {
    (void)tw::Environment::adopt();
  } catch (const tw::NotInitialisedError&) {
    refused = true;
  }
  try {
    const tw::Environment wrong(argc, argv, {.largest_message = 0});
    refused = false;
  } catch (const tw::ContractError&) {
    int initialised = 0;
    MPI_Initialized(&initialised);  // otherwise MPI needs finalising, or the launcher prints a long message
    refused = refused && initialised == 0;
  }
  MPI_Init(&argc, &argv);
  std::optional<tw::Environment> outlives_mpi;
  const int outcome = RUN_ALL_TESTS();
  outlives_mpi.emplace();  // destroyed after MPI_Finalize, which must be harmless
  const std::weak_ptr<int> memory = drop_an_allreduce();
  MPI_Finalize();
  if (!refused) std::cerr << "adopt(), or wrong options, were not refused before MPI_Init\n";
  if (!memory.expired()) std::cerr << "a dropped operation was not completed in front of the host's MPI_Finalize\n";
  return outcome != 0 || !refused || !memory.expired() ? 1 : 0;
}
