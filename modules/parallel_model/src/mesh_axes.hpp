// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/comm/ranks_along.hpp>
#include <utility>
#include <vector>

namespace tw {

/// @throws ContractError for an axis of another name, and for one of `refused` that is longer than 1, with the reason. Pure.
void expect_axes(const MeshShape& shape, const std::vector<std::pair<std::string, std::string>>& refused);

/// Whether this rank reads outputs: one of those along `tensor` and `layer`, which all have the same.
bool reads_outputs(const Mesh& mesh);

}  // namespace tw
