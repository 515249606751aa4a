// SPDX-License-Identifier: Apache-2.0
// Prices compared with sums by hand, and with the costs of the plans.
#include "cost.hpp"
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <tw/algorithms/price.hpp>

namespace price_test {

using tw::Collective;
using namespace tw::algorithms;

using Duration = std::chrono::duration<double>;

constexpr int64_t mib = 1 << 20;

Cluster flat(int nodes) { return {.nodes = nodes, .ranks_per_node = 1}; }

// With one rank per node, nothing is shared: the price is the bytes of the rank that sends most.
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
      // Recursive doubling on other numbers than powers of two counts all rounds, although no rank sends in all of them.
      const double rounds = static_cast<double>(mib * cost.rounds);
      const bool partners_change = algorithm != Algorithm::ring && algorithm != Algorithm::tree && ranks > 2;
      const double expected = (algorithm == Algorithm::recursive_doubling ? rounds : bytes) * (partners_change ? 1.1 : 1);
      EXPECT_NEAR(price.transfer.count(), expected / cluster.between.bytes_per_second, 1e-9) << ranks << name_of(algorithm);
    }
  }
}

TEST(Price, OfRanksThatShareALinkCountsAllOfThem) {
  const Cluster cluster{.nodes = 2, .ranks_per_node = 2};
  const double wire = static_cast<double>(mib) / cluster.between.bytes_per_second;
  const auto transfer = [&](std::string_view method) { return price_of(method, Collective::allreduce, cluster, mib).transfer.count(); };
  EXPECT_NEAR(transfer("ring"), 1.5 * wire, 1e-9);                          // one rank of a node sends to the next, 2 (P - 1) / P of the tensor
  EXPECT_NEAR(transfer("circulant"), 1.1 * 2 * (0.25 + 1.0) * wire, 1e-9);  // one rank of a node crosses in the first hop, both in the second
  EXPECT_NEAR(transfer("recursive_doubling"), 1.1 * 2 * wire + 2 * static_cast<double>(mib) / cluster.within.bytes_per_second,
              1e-9);  // then both
  const double memory = 2 * static_cast<double>(mib) / cluster.within.bytes_per_second;
  EXPECT_NEAR(transfer("hierarchical"), wire + memory, 1e-9);
  EXPECT_EQ(methods_for(Collective::allreduce, flat(2)).front(), "ring");
}

TEST(Price, OfADoubleTreeIsThatOfItsPlan) {
  for (const int ranks : {2, 3, 4, 7, 16, 64}) {
    for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::allreduce}) {
      const Cluster cluster = flat(ranks);
      const int64_t blocks = pipelined_blocks(Algorithm::double_tree, mib);
      const Cost cost = cost_of(Algorithm::double_tree, {.collective = collective, .ranks = ranks, .pipelined = blocks});
      const Price price = price_of("double_tree", collective, cluster, mib);
      EXPECT_NEAR(price.latency.count(), static_cast<double>(cost.rounds) * cluster.between.latency.count(), 1e-12) << ranks;
      // In steps with consecutive blocks of both trees, everything sent counts; in the other steps, one block for each of two children.
      const int64_t moved = std::max(cost.sent, cost.received) + 2 * (cost.rounds - blocks / 2);
      const double wire = static_cast<double>(mib / blocks * moved) / cluster.between.bytes_per_second;
      EXPECT_NEAR(price.transfer.count(), wire, 1e-9) << ranks;
    }
  }
  EXPECT_EQ(price_of("double_tree", Collective::allreduce, flat(1), mib).total().count(), 0);
}

// Of two blocks, one per tree: the blocks that cross the busiest node's link in one direction.
int64_t max_crossing(Collective collective, const Cluster& cluster) {
  std::vector<int64_t> out(static_cast<size_t>(cluster.nodes)), in = out;
  const auto node_of = [&](int rank) { return static_cast<size_t>(rank / cluster.ranks_per_node); };
  const auto ranks = static_cast<int>(cluster.ranks());
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Step& step : make_plan(Algorithm::double_tree, {.collective = collective, .ranks = ranks, .rank = rank, .pipelined = 2}).steps) {
      for (const Message& message : step.sends) {
        if (node_of(rank) == node_of(message.peer)) continue;
        ++out[node_of(rank)];
        ++in[node_of(message.peer)];
      }
    }
  }
  return std::max(*std::max_element(out.begin(), out.end()), *std::max_element(in.begin(), in.end()));
}

// Exact on up to 256 ranks, an upper bound on more.
TEST(Price, OfADoubleTreeCountsWhatCrossesTheLinkOfANode) {
  for (const Collective collective : {Collective::broadcast, Collective::allreduce}) {
    for (int ranks_per_node = 1; ranks_per_node <= 32; ++ranks_per_node) {
      int64_t most = 0;
      double bound = 0;  // blocks, of the two of a tensor
      for (const int nodes : {2, 3, 4, 8, 13, 17, 33}) {
        const Cluster cluster{.nodes = nodes, .ranks_per_node = ranks_per_node, .within = {Duration(1e-6), 1e15}};
        if (cluster.ranks() < 4) continue;  // on 2 and 3 ranks less is sent
        const Duration more =
            price_of("double_tree", collective, cluster, 8 * mib).transfer - price_of("double_tree", collective, cluster, 4 * mib).transfer;
        const double counted = more.count() * cluster.between.bytes_per_second / static_cast<double>(2 * mib);
        const int64_t crossing = max_crossing(collective, cluster);
        EXPECT_LE(static_cast<double>(crossing), counted + 1e-6) << nodes << " nodes of " << ranks_per_node;
        if (cluster.ranks() > 256) {
          bound = counted;
        } else {
          EXPECT_NEAR(static_cast<double>(crossing), counted, 1e-6) << nodes << " nodes of " << ranks_per_node;
        }
        most = std::max(most, crossing);
      }
      EXPECT_GE(static_cast<double>(most), bound * (std::has_single_bit(static_cast<unsigned>(ranks_per_node)) ? 1 - 1e-9 : 0.65)) << ranks_per_node;
    }
  }
}

TEST(Price, OfADoubleTreeIsOfBlocksThatGrowAsTheRootUpToALargest) {
  const auto blocks = [](int64_t bytes) { return pipelined_blocks(Algorithm::double_tree, bytes); };
  EXPECT_EQ(blocks(0), 1);
  EXPECT_EQ(blocks(1024), 1);
  EXPECT_EQ(blocks(1025), 2);
  EXPECT_EQ(blocks(64 << 10), 8);
  EXPECT_EQ(blocks(mib), 32);
  EXPECT_EQ(blocks(4 * mib), 128);
  EXPECT_EQ(pipelined_blocks(Algorithm::chain, 4 * mib), 1);
}

TEST(Price, BetweenNodesTheSizeDecides) {
  EXPECT_EQ(between_nodes(Collective::allreduce, 4, 16 << 10), Algorithm::recursive_doubling);
  EXPECT_EQ(between_nodes(Collective::allreduce, 4, 64 << 10), Algorithm::circulant);
  EXPECT_EQ(between_nodes(Collective::allreduce, 4, 256 << 10), Algorithm::ring);
  EXPECT_EQ(between_nodes(Collective::allreduce, 1000, 256 << 10), Algorithm::circulant);
  EXPECT_EQ(between_nodes(Collective::broadcast, 4, 16 << 10), Algorithm::tree);
  EXPECT_EQ(between_nodes(Collective::broadcast, 4, 17 << 10), Algorithm::double_tree);
  EXPECT_EQ(between_nodes(Collective::broadcast, 2, 256 << 10), Algorithm::tree);
}

TEST(Price, IsQuicklyToldOfManyRanks) {
  for (const Collective collective : {Collective::alltoall, Collective::allreduce}) {
    for (const std::string_view method : methods_for(collective, {.nodes = 12500, .ranks_per_node = 8})) {
      EXPECT_GT(price_of(method, collective, {.nodes = 12500, .ranks_per_node = 8}, mib).total().count(), 0);
    }
  }
}

TEST(Price, NamesAWayThatThereIsNot) {
  const std::string message = tw::testing::message_of([] { (void)price_of("pigeons", Collective::allreduce, {.nodes = 2}, 1); });
  EXPECT_NE(message.find("'pigeons' is not an algorithm for allreduce on 2 nodes of 1 ranks"), std::string::npos) << message;
}

}  // namespace price_test
