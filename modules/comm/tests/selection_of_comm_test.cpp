// SPDX-License-Identifier: Apache-2.0
// Which backend runs a call under a selection, and which communicators inherit it.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <limits>
#include <tw/comm.hpp>

namespace selection_of_comm_test {

using tw::Collective;
using tw::algorithms::Selection;
using tw::testing::message_of;
using tw::testing::world;

constexpr int64_t without_limit = std::numeric_limits<int64_t>::max();

std::vector<std::string> chosen_backends(const tw::Communicator& comm, Collective collective) {
  std::vector<std::string> names;
  for (const tw::Availability& entry : tw::availability(comm)) {
    if (entry.collective == collective && !entry.on_device && entry.chosen) names.push_back(entry.backend);
  }
  return names;
}

const Selection& by_size() {
  static const Selection selection({{Collective::allreduce, 64, "recursive_doubling", "small"},
                                    {Collective::allreduce, without_limit, "ring", "large"},
                                    {Collective::alltoall, without_limit, "ring", "which cannot"}});
  return selection;
}

TW_TEST_ON(SelectionOfComm, SendsEverySizeWhereItSays, {.least = 2}) {
  const tw::Communicator comm = world().dup();
  EXPECT_EQ(tw::selection(comm).choice(Collective::allreduce, 8)->backend, "shared_memory");
  tw::select_backends(comm, by_size());
  EXPECT_EQ(chosen_backends(comm, Collective::allreduce), (std::vector<std::string>{"ring", "recursive_doubling"}));
  EXPECT_EQ(chosen_backends(comm, Collective::alltoall), (std::vector<std::string>{"mpi"}));
  EXPECT_EQ(chosen_backends(comm, Collective::broadcast), (std::vector<std::string>{"shared_memory"}));
  for (const int64_t count : {int64_t{16}, int64_t{17}, int64_t{5000}}) {
    const at::Tensor x = torch::ones({count});
    tw::allreduce(comm, x, tw::ReduceOp::sum);
    EXPECT_TRUE(x.eq(comm.size()).all().item<bool>()) << count;
  }
  tw::choose_backend(comm, "mpi");
  EXPECT_EQ(chosen_backends(comm, Collective::allreduce), (std::vector<std::string>{"mpi"}));
  tw::choose_backend(comm, std::nullopt);
  EXPECT_EQ(chosen_backends(comm, Collective::allreduce), (std::vector<std::string>{"ring", "recursive_doubling"}));
}

TW_TEST_ON(SelectionOfComm, IsInheritedByThoseOfAsManyRanks, {.least = 2}) {
  const tw::Communicator comm = world().dup();
  tw::select_backends(comm, by_size());
  EXPECT_EQ(tw::selection(comm.dup().dup()).choices(), by_size().choices());
  EXPECT_NE(tw::selection(comm.split(comm.rank(), 0)).choices(), by_size().choices());
  EXPECT_NE(tw::selection(world().dup()).choices(), by_size().choices());
}

TEST(SelectionOfComm, NamesABackendThatThereIsNot) {
  const tw::Communicator comm = world().dup();
  const std::string message = message_of([&] { tw::select_backends(comm, Selection({{Collective::allreduce, without_limit, "pigeons", ""}})); });
  EXPECT_NE(message.find("there is no backend 'pigeons' to select; there are shared_memory, mpi, hierarchical, ring"), std::string::npos) << message;
  const auto names = tw::backend_names(comm);
  EXPECT_EQ(names.front(), "shared_memory");
}

}  // namespace selection_of_comm_test
