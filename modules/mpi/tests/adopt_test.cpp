// SPDX-License-Identifier: Apache-2.0
// A host program owns MPI: it initialises and finalises it, and Torchweave is set up and torn down in between. For the same reason this file does not
// use the tests' main().
#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/interop.hpp>
#include <tw/mpi/mailbox.hpp>
#include <tw/mpi/rpc_client.hpp>

namespace {

int ranks() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

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
std::weak_ptr<int> drop_an_allreduce(const tw::Communicator& comm) {
  const auto number = std::make_shared<int>(1);
  (void)tw::mpi::start(comm, {.collective = tw::Collective::allreduce},
                       tw::mpi::allreduce_transfer(comm, {number.get(), 1, tw::ElementType::int32}, tw::ReduceOp::sum), [number] {});
  return number;
}

// The lines that are logged while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    tw::set_log_function([this](tw::LogLevel, std::string_view line) { text += tw::concat(line, '\n'); });
  }
  ~CapturedLog() { tw::set_log_function({}); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text = {};
};

// The job is the host's: a wait past its limit is an error, on all members, and what is logged goes to the host.
TEST(Adopt, AWaitPastItsLimitIsAnErrorThatTheHostCatches) {
  if (ranks() != 2) GTEST_SKIP() << "needs 2 ranks";
  using std::chrono::milliseconds;
  const CapturedLog log;
  {
    const auto mpi = tw::Environment::adopt({.stall_warning = milliseconds(100), .stall_abort = milliseconds(300)});
    const auto comm = tw::Communicator::duplicate_of(MPI_COMM_WORLD);
    const auto message_of_barriers = [&] {
      try {
        comm.barrier();
        comm.barrier();  // the first may complete where the other rank had begun it
      } catch (const tw::RevokedError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    if (comm.rank() != 0) MPI_Barrier(MPI_COMM_WORLD);
    const std::string message = message_of_barriers();
    if (comm.rank() == 0) MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_NE(message.find("has waited"), std::string::npos) << message;  // the reason reaches the other rank, too
    if (comm.rank() == 0) {
      EXPECT_NE(message.find("this is longer than EnvironmentOptions::stall_abort"), std::string::npos) << message;
    }
    if (comm.rank() == 0) {
      EXPECT_NE(log.text.find("rank 1 has not responded"), std::string::npos) << log.text;
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// An operation that another rank never joins does not end the job when the host leaves.
TEST(Adopt, AnOperationThatNeverCompletesIsLeftAsItIs) {
  if (ranks() != 2) GTEST_SKIP() << "needs 2 ranks";
  const CapturedLog log;
  bool first = false;
  {
    const auto mpi = tw::Environment::adopt({.drain_timeout = std::chrono::milliseconds(100)});
    const auto comm = tw::Communicator::duplicate_of(MPI_COMM_WORLD);
    first = comm.rank() == 0;
    if (first) (void)drop_an_allreduce(comm);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (first) {
    EXPECT_NE(log.text.find("did not complete within 100 ms"), std::string::npos) << log.text;
  }
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
  const std::weak_ptr<int> memory = drop_an_allreduce(tw::Communicator::duplicate_of(MPI_COMM_WORLD));
  MPI_Finalize();
  if (!refused) std::cerr << "adopt(), or wrong options, were not refused before MPI_Init\n";
  if (!memory.expired()) std::cerr << "a dropped operation was not completed in front of the host's MPI_Finalize\n";
  return outcome != 0 || !refused || !memory.expired() ? 1 : 0;
}
