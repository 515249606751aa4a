// SPDX-License-Identifier: Apache-2.0
// Rank orders of meshes on simulated nodes, compared with the original order and with the best of all orders.
#include "mesh_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace mesh_layout_test {

using tw::MeshAxis;
using tw::MeshLayout;
using tw::MeshShape;
using tw::Nodes;
using Axes = std::vector<MeshAxis>;

Nodes nodes_of(const std::vector<int64_t>& node_of_rank) {
  std::vector<int64_t> first_of_node;
  for (const int64_t node : node_of_rank) {
    first_of_node.push_back(std::find(node_of_rank.begin(), node_of_rank.end(), node) - node_of_rank.begin());
  }
  return Nodes(first_of_node);
}

/// The node of each rank for equal nodes: filled one after the other, or dealt out.
std::vector<int64_t> filled(int nodes, int ranks_per_node, bool dealt_out) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < nodes * ranks_per_node; ++rank) all.push_back(dealt_out ? rank % nodes : rank / ranks_per_node);
  return all;
}

std::vector<int> in_order(int ranks) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// The number of neighbour pairs on one node, per axis from the closest one on.
std::vector<int> close_neighbours(const MeshShape& shape, const std::vector<int>& rank_at, const Nodes& nodes) {
  std::vector<int> found;
  for (const char* name : {"tensor", "stage", "layer", "shard", "inputs", "data", "search"}) {
    const auto& axes = shape.axes();
    const auto axis = std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& one) { return one.name == name; });
    if (axis == axes.end()) continue;
    int pairs = 0;
    for (int place = 0; place < shape.ranks(); ++place) {
      std::vector<int> next = shape.coordinates_of(place);
      if (++next[static_cast<size_t>(axis - axes.begin())] == axis->size) continue;
      const auto node_at = [&](int at) { return nodes.place_of[static_cast<size_t>(rank_at[static_cast<size_t>(at)])].node; };
      if (node_at(place) == node_at(shape.rank_at(next))) ++pairs;
    }
    found.push_back(pairs);
  }
  return found;
}

/// Random sizes, at least `least`, with product `ranks`, for some of the known axes in random order.
MeshShape random_shape(int ranks, std::mt19937& random, int least = 1) {
  std::vector<std::string> names{"tensor", "stage", "layer", "shard", "inputs", "data", "search"};
  std::shuffle(names.begin(), names.end(), random);
  Axes axes;
  for (int left = ranks; axes.empty() || left > 1;) {
    std::vector<int> divisors;
    for (int size = std::min(least, left); size <= left; ++size) {
      if (left % size == 0) divisors.push_back(size);
    }
    const bool is_last = axes.size() == 3;
    axes.push_back({names[axes.size()], is_last ? left : divisors[random() % divisors.size()]});
    left /= axes.back().size;
  }
  return {ranks, axes};
}

TEST(MeshLayout, KeepsTheRanksOrderWhereItIsAsGood) {
  for (const auto& axes : {Axes{{"data", 4}, {"tensor", 2}}, Axes{{"search", 2}, {"data", 2}, {"stage", 2}}, Axes{{"data", 8}}}) {
    for (const int ranks_per_node : {1, 2, 4, 8}) {
      const MeshLayout layout = layout_on_nodes({8, axes}, nodes_of(filled(8 / ranks_per_node, ranks_per_node, false)));
      EXPECT_EQ(layout.rank_at, in_order(8)) << layout.description;
    }
  }
  std::mt19937 random(1);
  for (int ranks = 1; ranks <= 24; ++ranks) {
    const MeshShape shape = random_shape(ranks, random);
    EXPECT_EQ(layout_on_nodes(shape, nodes_of(filled(1, ranks, false))).rank_at, in_order(ranks)) << shape.describe();
  }
}

TEST(MeshLayout, PutsCloseAxesIntoNodesAndSaysSo) {
  const auto of = [](const Axes& axes, const std::vector<int64_t>& nodes) {
    return layout_on_nodes({static_cast<int>(nodes.size()), axes}, nodes_of(nodes));
  };
  const MeshLayout dealt_out = of({{"data", 2}, {"tensor", 2}}, {0, 1, 0, 1});
  EXPECT_EQ(dealt_out.rank_at, (std::vector{0, 2, 1, 3}));
  EXPECT_EQ(dealt_out.description, "mesh data=2 x tensor=2 over 2 nodes: tensor in nodes, data between nodes (ranks 1 and 2 change places)");
  const MeshLayout far_axis_last = of({{"tensor", 2}, {"data", 2}}, {0, 0, 1, 1});
  EXPECT_EQ(far_axis_last.rank_at, (std::vector{0, 2, 1, 3}));
  EXPECT_EQ(of({{"data", 2}, {"tensor", 2}}, {0, 1, 1, 2}).rank_at, (std::vector{0, 3, 1, 2}));
  EXPECT_EQ(of({{"rows", 2}, {"columns", 2}}, {0, 1, 0, 1}).rank_at, (std::vector{0, 2, 1, 3}));  // of other axes the last is the closest
  EXPECT_EQ(of({{"data", 2}, {"tensor", 2}}, {0, 0, 1, 1}).description,
            "mesh data=2 x tensor=2 over 2 nodes: tensor in nodes, data between nodes (ranks in their own order)");
  EXPECT_EQ(of({{"data", 2}, {"stage", 2}, {"tensor", 2}}, filled(2, 4, true)).description,
            "mesh data=2 x stage=2 x tensor=2 over 2 nodes: tensor and stage in nodes, data between nodes (6 of 8 ranks change places)");
  EXPECT_EQ(of({{"data", 1}, {"layer", 4}}, {0, 0, 0, 1}).description,
            "mesh data=1 x layer=4 over 2 nodes: layer partly in nodes (ranks in their own order)");
  EXPECT_EQ(of({{"tensor", 2}, {"data", 1}}, {0, 0}).description, "mesh tensor=2 x data=1 over 1 node: tensor in nodes (ranks in their own order)");
}

// For every order of axes and ranks: an axis that fits into a node lies within one.
TEST(MeshLayout, OfEqualNodesHoldsWhateverDividesThem) {
  std::mt19937 random(2);
  for (const auto& [nodes, ranks_per_node] : {std::pair{2, 4}, {4, 4}, {3, 8}, {4, 6}}) {
    for (int round = 0; round < 50; ++round) {
      const int ranks = nodes * ranks_per_node;
      const MeshShape shape = random_shape(ranks, random);
      std::vector<int64_t> node_of_rank = filled(nodes, ranks_per_node, false);
      std::shuffle(node_of_rank.begin(), node_of_rank.end(), random);
      const Nodes on = nodes_of(node_of_rank);
      const std::vector<int> found = close_neighbours(shape, layout_on_nodes(shape, on).rank_at, on);
      int product = 1;
      size_t i = 0;
      for (const char* name : {"tensor", "stage", "layer", "shard", "inputs", "data", "search"}) {
        const auto& axes = shape.axes();
        const auto axis = std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& one) { return one.name == name; });
        if (axis == axes.end()) continue;
        product *= axis->size;
        if (ranks_per_node % product != 0) break;
        EXPECT_EQ(found[i], ranks / axis->size * (axis->size - 1)) << shape.describe() << ": " << name;
        ++i;
      }
    }
  }
}

TEST(MeshLayout, OfAnyNodesIsAPermutationNoWorseThanTheRanksOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 24);
    const MeshShape shape = random_shape(ranks, random);
    std::vector<int64_t> node_of_rank;
    const auto nodes = 1 + random() % 5;
    for (int rank = 0; rank < ranks; ++rank) node_of_rank.push_back(static_cast<int64_t>(random() % nodes));
    const Nodes on = nodes_of(node_of_rank);
    std::vector<int> rank_at = layout_on_nodes(shape, on).rank_at;
    EXPECT_EQ(rank_at.at(0), 0) << shape.describe();
    EXPECT_GE(close_neighbours(shape, rank_at, on), close_neighbours(shape, in_order(ranks), on)) << shape.describe();
    std::sort(rank_at.begin(), rank_at.end());
    EXPECT_EQ(rank_at, in_order(ranks)) << shape.describe();
  }
}

// On up to three nodes, no order has more neighbours in nodes along the closest axis. On more nodes the layout may miss the best.
TEST(MeshLayout, OfFewRanksIsAsGoodAsAnyOrder) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 6);
    const MeshShape shape = random_shape(ranks, random, 2);
    std::vector<int64_t> node_of_rank;
    const auto nodes = 1 + random() % 3;
    for (int rank = 0; rank < ranks; ++rank) node_of_rank.push_back(static_cast<int64_t>(random() % nodes));
    const Nodes on = nodes_of(node_of_rank);
    int best = 0;
    std::vector<int> rank_at = in_order(ranks);
    do {
      best = std::max(best, close_neighbours(shape, rank_at, on).front());
    } while (std::next_permutation(rank_at.begin() + 1, rank_at.end()));
    EXPECT_EQ(close_neighbours(shape, layout_on_nodes(shape, on).rank_at, on).front(), best) << shape.describe();
  }
}

}  // namespace mesh_layout_test
