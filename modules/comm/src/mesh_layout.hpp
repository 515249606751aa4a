// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/comm/mesh.hpp>
#include <vector>

#include "nodes.hpp"

namespace tw {

/// Which rank of a communicator has which place in a mesh.
struct MeshLayout {
  std::vector<int> rank_at;  ///< by place, as MeshShape counts them
  std::string description;   ///< such as "mesh data=2 x tensor=2 over 2 nodes: tensor in nodes, data between nodes (ranks 1 and 2 change places)"
};

/// The ranks' own order, unless another one has more neighbours in one node: along `tensor`, or as many there and more along `stage`, and so on along
/// `layer`, `shard`, axes of other names (the last one first), `data` and `search`. Rank 0 has place 0. Pure.
MeshLayout layout_on_nodes(const MeshShape& shape, const Nodes& nodes);

}  // namespace tw
