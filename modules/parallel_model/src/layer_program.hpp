// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/comm/mesh.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <vector>

#include "program.hpp"

namespace tw {

/// Layers in parallel: one network along `layer`, or one in each stage. Along `stage`, the list is cut between blocks. Collective over the mesh,
/// whose communicators the program uses.
/// @throws ContractError on every rank if there are fewer blocks than stages, or an axis `tensor` but no split layer
std::unique_ptr<Program> layer_program(const Mesh& mesh, const std::vector<layer_parallel::Block>& blocks, const std::vector<at::Tensor>& example,
                                       const layer_parallel::LayerParallelOptions& layers, const ParallelOptions& options);

}  // namespace tw
