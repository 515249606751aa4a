// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/comm/ranks_along.hpp>
#include <utility>
#include <vector>

namespace tw {

/// @throws ContractError for an axis with an unknown name, and for an axis of `refused` whose size is not 1, with the reason. Pure.
/// @param refused names of axes, with reasons that complete the sentence "the mesh is ..., but"
void expect_axes(const MeshShape& shape, const std::vector<std::pair<std::string, std::string>>& refused);

/// Whether this rank reads outputs. Ranks along `tensor` and `layer` all have the same outputs, so only the first one does.
bool reads_outputs(const Mesh& mesh);

}  // namespace tw
