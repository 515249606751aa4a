// SPDX-License-Identifier: Apache-2.0
// Rank 0 on a node of its own, the others together on a second one: to a link, a node is a list of ranks.
#include "link.hpp"

#include "mpi_test.hpp"

#include <torch/torch.h>

#include <numeric>
#include <tw/comm/collectives.hpp>

namespace {

using tw::testing::world;

std::vector<int> neighbours() {
  if (world().rank() == 0) return {0};
  std::vector<int> others(static_cast<size_t>(world().size() - 1));
  std::iota(others.begin(), others.end(), 1);
  return others;
}

TEST(Link, SlotsMustSuitTheLargestNodeAndAllRanksHearIt) {
  const int64_t least = 64 * std::max(1, world().size() - 1);
  const tw::Communicator comm = world().dup();
  EXPECT_THROW(tw::Link::make(comm, {.slot_bytes = least - 64}, neighbours()), tw::ContractError);
  EXPECT_EQ(tw::Link::make(comm, {.slot_bytes = least}, neighbours()).channel()->slot_bytes(), least);
  const at::Tensor ranks = torch::full({100}, int{comm.rank()});
  tw::allreduce(comm, ranks, tw::ReduceOp::sum);
  EXPECT_TRUE(ranks.eq(comm.size() * (comm.size() - 1) / 2).all().item<bool>());
}

}  // namespace
