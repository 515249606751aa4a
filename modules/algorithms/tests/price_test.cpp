// SPDX-License-Identifier: Apache-2.0
// Prices against sums by hand, and against the costs of the plans.
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tw/algorithms/cost.hpp>
#include <tw/algorithms/price.hpp>

namespace price_test {

using tw::Collective;
using namespace tw::algorithms;

constexpr int64_t mib = 1 << 20;

Cluster flat(int nodes) { return {.nodes = nodes, .ranks_per_node = 1}; }

// Where every rank has a node to itself, nothing is shared: the bytes of the rank that sends most, one after the other.
TEST(Price, OfRanksWithNodesOfTheirOwnIsThatOfTheirPlans) {
  for (const int ranks : {2, 3, 4, 7, 16, 64}) {
    for (const auto& [algorithm, collective] : {std::pair{Algorithm::ring, Collective::allreduce},
                                                {Algorithm::ring, Collective::allgather},
                                                {Algorithm::circulant, Collective::allreduce},
                                                {Algorithm::circulant, Collective::reduce_scatter},
                                                {Algorithm::recursive_doubling, Collective::allreduce},
                                                {Algorithm::tree, Collective::broadcast},
                                                {Algorithm::pairwise, Collective::alltoall},
                                                {Algorithm::bruck, Collective::alltoall}}) {
      const Cluster cluster = flat(ranks);
      const Cost cost = cost_of(algorithm, {.collective = collective, .ranks = ranks});
      const Price price = price_of(name_of(algorithm), collective, cluster, mib);
      const double bytes = static_cast<double>(mib) / static_cast<double>(cost.blocks) * static_cast<double>(std::max(cost.sent, cost.received));
      EXPECT_NEAR(price.latency.count(), static_cast<double>(cost.rounds) * cluster.between.latency.count(), 1e-12) << ranks << name_of(algorithm);
      // Of recursive doubling on other than powers of two all rounds count, though no rank sends in all.
      const double rounds = static_cast<double>(mib * cost.rounds);
      const bool partners_change = algorithm != Algorithm::ring && algorithm != Algorithm::tree && ranks > 2;
      const double expected = (algorithm == Algorithm::recursive_doubling ? rounds : bytes) * (partners_change ? 1.5 : 1);
      EXPECT_NEAR(price.transfer.count(), expected / cluster.between.bytes_per_second, 1e-9) << ranks << name_of(algorithm);
    }
  }
}

TEST(Price, OfRanksThatShareALinkCountsAllOfThem) {
  const Cluster cluster{.nodes = 2, .ranks_per_node = 2};
  const double wire = static_cast<double>(mib) / cluster.between.bytes_per_second;
  const auto transfer = [&](std::string_view way) { return price_of(way, Collective::allreduce, cluster, mib).transfer.count(); };
  EXPECT_NEAR(transfer("ring"), 1.5 * wire, 1e-9);                          // one rank of a node sends to the next, 2 (P - 1) / P of the tensor
  EXPECT_NEAR(transfer("circulant"), 1.5 * 2 * (0.25 + 1.0) * wire, 1e-9);  // of the hop to a neighbour one of two crosses, of the hop by two both
  const double memory = 2 * static_cast<double>(mib) / cluster.within.bytes_per_second;
  EXPECT_NEAR(transfer("hierarchical"), wire + memory, 1e-9);
  EXPECT_EQ(ways_to(Collective::allreduce, flat(2)).front(), "ring");
}

TEST(Price, BetweenNodesTheSizeDecides) {
  EXPECT_EQ(between_nodes(4, 16 << 10), Algorithm::recursive_doubling);
  EXPECT_EQ(between_nodes(4, 64 << 10), Algorithm::circulant);
  EXPECT_EQ(between_nodes(4, 256 << 10), Algorithm::ring);
  EXPECT_EQ(between_nodes(1000, 256 << 10), Algorithm::circulant);
}

TEST(Price, IsQuicklyToldOfManyRanks) {
  for (const std::string_view way : ways_to(Collective::alltoall, {.nodes = 12500, .ranks_per_node = 8})) {
    EXPECT_GT(price_of(way, Collective::alltoall, {.nodes = 12500, .ranks_per_node = 8}, mib).total().count(), 0);
  }
}

TEST(Price, NamesAWayThatThereIsNot) {
  const std::string message = tw::testing::message_of([] { (void)price_of("pigeons", Collective::allreduce, {.nodes = 2}, 1); });
  EXPECT_NE(message.find("'pigeons' is no way to do allreduce on 2 nodes of 1 ranks"), std::string::npos) << message;
}

}  // namespace price_test
