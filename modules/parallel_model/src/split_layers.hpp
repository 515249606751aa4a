// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <tw/comm/mesh.hpp>

namespace tw {

/// Whether `module` contains split layers; see SlicedModule. Local.
bool has_split_layers(const torch::nn::Module& module);
/// Whether any rank has a split layer. Collective over the mesh.
bool any_split_layers(const Mesh& mesh, bool has_some);
/// Collective over the mesh. @param has_some whether this rank has a split layer
/// @throws ContractError on every rank if the mesh has the axis `tensor`, but no rank has a split layer
void expect_split_layers(const Mesh& mesh, bool has_some);

}  // namespace tw
