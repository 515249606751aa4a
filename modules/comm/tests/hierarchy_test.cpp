// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/comm.hpp>

namespace hierarchy_test {

using tw::Between;
using tw::Hierarchy;
using tw::Level;
using tw::testing::message_of;
using tw::testing::world;

Level pairs() { return {"pair", tw::concat("pair ", world().rank() / 2)}; }

TEST(Hierarchy, OfTheMachineHasOneNodeHere) {
  const Hierarchy hierarchy(world(), {tw::node_level(world()), tw::numa_level()}, Between::tree);
  EXPECT_EQ(hierarchy.levels(), 2);
  EXPECT_EQ(hierarchy.inside(0).size(), world().size());
  EXPECT_EQ(hierarchy.between(0) != nullptr, world().rank() == 0);
}

TW_TEST_ON(Hierarchy, CartesianPeersSpeak, {.least = 4, .most = 4}) {
  const Hierarchy hierarchy(world(), {pairs(), {"rank", tw::concat(world().rank())}});
  EXPECT_EQ(hierarchy.describe(), "2 pair of 2 ranks, 2 rank of 1 ranks");
  // A sum inside, then one between, is the sum of all; by peers, each pair of which adds its own half.
  const at::Tensor x = torch::full({2}, double(world().rank() + 1));
  tw::allreduce(hierarchy.inside(0), x, tw::ReduceOp::sum);
  tw::allreduce(*hierarchy.between(0), x, tw::ReduceOp::sum);
  EXPECT_EQ(x[0].item<double>(), 10);
  EXPECT_EQ(hierarchy.between(0)->rank(), world().rank() / 2);
}

TW_TEST_ON(Hierarchy, InATreeTheFirstSpeak, {.least = 3}) {
  const Hierarchy hierarchy(world(), {pairs()}, Between::tree);
  const bool speaks = world().rank() % 2 == 0;
  ASSERT_EQ(hierarchy.between(0) != nullptr, speaks);
  const at::Tensor x = torch::full({1}, double(world().rank()));
  tw::reduce(hierarchy.inside(0), x, tw::ReduceOp::sum, tw::Rank(0));
  if (speaks) tw::allreduce(*hierarchy.between(0), x, tw::ReduceOp::sum);
  tw::broadcast(hierarchy.inside(0), x, tw::Rank(0));
  EXPECT_EQ(x.item<double>(), world().size() * (world().size() - 1) / 2.0);
}

TW_TEST_ON(Hierarchy, RefusesWhatDiffers, {.least = 3, .most = 3}) {
  const std::string unequal = message_of([] { (void)Hierarchy(world(), {pairs()}); });
  EXPECT_NE(unequal.find("has 2 ranks, that of rank 2 has 1"), std::string::npos) << unequal;
  const std::string named = message_of([] { (void)Hierarchy(world(), {{tw::concat("level", world().rank() / 2), "a"}}); });
  EXPECT_NE(named.find("the levels of a hierarchy"), std::string::npos) << named;
  EXPECT_NE(message_of([] { (void)Hierarchy(world(), {}); }).find("at least one level"), std::string::npos);
}

}  // namespace hierarchy_test
