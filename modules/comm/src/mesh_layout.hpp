// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/comm/mesh.hpp>
#include <vector>

#include "nodes.hpp"

namespace tw {

/// The assignment of a communicator's ranks to places in a mesh.
struct MeshLayout {
  std::vector<int> rank_at;  ///< by place, in MeshShape's order
  std::string description;   ///< such as "mesh data=2 x tensor=2 over 2 nodes: tensor in nodes, data between nodes (ranks 1 and 2 change places)"
};

/// The identity, unless another order has more neighbours on one node. Axes are compared in turn: `tensor`, `stage`, `layer`, `shard`, axes of other
/// names (the last one first), `data` and `search`. Rank 0 has place 0. Pure.
MeshLayout layout_on_nodes(const MeshShape& shape, const Nodes& nodes);

}  // namespace tw
