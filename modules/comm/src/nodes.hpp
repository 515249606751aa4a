// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <map>
#include <vector>

namespace tw {

/// The ranks of a communicator by node; nodes in the order of their lowest ranks, ranks ascending.
struct Nodes {
  /// @param first_of_node by rank: the lowest rank of its node
  explicit Nodes(const std::vector<int64_t>& first_of_node) : place_of(first_of_node.size()) {
    std::map<int64_t, size_t> node_of;
    for (size_t rank = 0; rank < first_of_node.size(); ++rank) {
      const auto [node, is_new] = node_of.try_emplace(first_of_node[rank], members.size());
      if (is_new) members.emplace_back();
      place_of[rank] = {static_cast<int>(node->second), static_cast<int>(members[node->second].size())};
      members[node->second].push_back(static_cast<int>(rank));
    }
  }

  int count() const { return static_cast<int>(members.size()); }
  /// The size of the smallest node.
  int fewest() const {
    size_t least = members[0].size();
    for (const auto& node : members) least = std::min(least, node.size());
    return static_cast<int>(least);
  }
  bool are_equal() const {
    return std::all_of(members.begin(), members.end(), [this](const auto& node) { return node.size() == members[0].size(); });
  }

  struct Place {
    int node;
    int local;  // rank on the node
  };
  std::vector<std::vector<int>> members;
  std::vector<Place> place_of;  // by rank
};

}  // namespace tw
