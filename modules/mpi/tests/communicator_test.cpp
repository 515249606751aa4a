// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <algorithm>
#include <tw/mpi/interop.hpp>
#include <tw/mpi/locality.hpp>

namespace communicator_test {

using tw::testing::world;

int sum_of_ranks(const tw::Communicator& comm) {
  int sum = comm.rank();
  tw::mpi::allreduce(comm, {&sum, 1, tw::ElementType::int32}, tw::ReduceOp::sum);
  return sum;
}

TEST(Communicator, DupHasTheSameRanksAndMessagesOfItsOwn) {
  const auto copy = world().dup();
  EXPECT_EQ(copy.rank(), world().rank());
  EXPECT_EQ(copy.size(), world().size());
  EXPECT_NE(tw::native_handle(copy), tw::native_handle(world()));
  EXPECT_EQ(sum_of_ranks(copy), copy.size() * (copy.size() - 1) / 2);
}

TEST(Communicator, SplitGroupsByColorAndOrdersByKey) {
  const int rank = world().rank();
  const auto part = world().split(rank % 2, /*key=*/-rank);
  const int members = (world().size() + 1 - rank % 2) / 2;
  EXPECT_EQ(part.size(), members);
  EXPECT_EQ(part.rank(), members - 1 - rank / 2);  // reversed by the key
  EXPECT_THROW((void)world().split(-1, 0), tw::ContractError);
}

TEST(Communicator, MovesAndKeepsWorking) {
  auto first = world().dup();
  auto second = world().dup();
  first = std::move(second);  // the communicator that first held is retired
  EXPECT_EQ(sum_of_ranks(first), first.size() * (first.size() - 1) / 2);
}

TEST(Communicator, DuplicatesTheUsersCommunicator) {
  MPI_Comm theirs = MPI_COMM_NULL;
  MPI_Comm_split(tw::native_handle(world()), world().rank() % 2, 0, &theirs);
  {
    const auto ours = tw::Communicator::duplicate_of(theirs);
    int size = 0;
    MPI_Comm_size(theirs, &size);
    EXPECT_EQ(ours.size(), size);
    ours.barrier();
  }
  MPI_Comm_free(&theirs);
  EXPECT_THROW((void)tw::Communicator::duplicate_of(MPI_COMM_NULL), tw::ContractError);
}

TW_TEST_ON(Communicator, RefusesAnIntercommunicator, {.least = 2}) {
  const int side = world().rank() % 2;
  const auto mine = world().split(side, 0);
  MPI_Comm both = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Intercomm_create(tw::native_handle(mine), 0, tw::native_handle(world()), 1 - side, /*tag=*/7, &both), MPI_SUCCESS);
  EXPECT_THROW((void)tw::Communicator::duplicate_of(both), tw::ContractError);
  MPI_Comm_free(&both);
}

TEST(Communicator, HasMpiReturnItsErrors) {
  MPI_Comm handle = tw::native_handle(world());
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(handle, &handler);
  EXPECT_EQ(handler, MPI_ERRORS_RETURN);
}

TEST(Communicator, RefusesARootThatIsNoRank) {
  int value = 0;
  EXPECT_THROW(tw::mpi::broadcast(world(), {&value, 1, tw::ElementType::int32}, tw::Rank(world().size())), tw::ContractError);
}

TEST(Communicator, MapsAnMpiErrorToAnException) {
  // In pairs: the first sends more than the second's buffer holds. (With more ranks, those further down the tree would wait for ever.)
  const auto comm = world().split(world().rank() / 2, 0);
  std::vector<int32_t> values(16);
  const int64_t count = comm.rank() == 0 ? 16 : 4;
  try {
    tw::mpi::broadcast(comm, {values.data(), count, tw::ElementType::int32}, tw::Rank(0));
    EXPECT_EQ(comm.rank(), 0);
  } catch (const tw::MpiError& error) {
    const std::string text = error.what();
    EXPECT_NE(comm.rank(), 0);
    EXPECT_NE(text.find("MPI_Ibcast failed on communicator 'world/dup/split"), std::string::npos) << text;
    EXPECT_NE(error.code(), MPI_SUCCESS);
    char said[MPI_MAX_ERROR_STRING];  // Open MPI reports MPI_ERR_TRUNCATE, MPICH an invalid communicator
    int length = 0;
    MPI_Error_string(error.code(), said, &length);
    EXPECT_NE(text.find(std::string(said, static_cast<size_t>(length))), std::string::npos) << text;
  }
}

TEST(Topology, AllRanksOfThisMachineShareANode) {
  const auto topology = tw::find_topology(world());
  EXPECT_EQ(topology.nodes, 1);
  EXPECT_EQ(topology.local_size, world().size());
  EXPECT_EQ(topology.local_rank, world().rank());
  EXPECT_FALSE(topology.node.empty());
  EXPECT_GE(topology.cores, 1);
}

TEST(Topology, DividesTheCoresThatAllRanksMayUse) { EXPECT_EQ(tw::find_topology(world()).cores, std::max(1, tw::cores_here() / world().size())); }

TEST(Rank, ReadsAsAnInteger) {
  constexpr tw::Rank rank(3);
  static_assert(rank == 3 && rank < 4);
  static_assert(!std::is_convertible_v<int, tw::Rank>);
}

}  // namespace communicator_test
