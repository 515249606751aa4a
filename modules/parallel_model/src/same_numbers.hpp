// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <tw/comm/mesh.hpp>
#include <tw/graph/capture_modes.hpp>
#include <vector>

namespace tw {

struct ModuleForComparison {
  const graph::ModeGraphs& graphs;
  const std::map<std::string, at::Tensor>& tensors;  ///< parameters and buffers by name
};

/// Runs both graphs of a module whole on every rank, and by parts together, that of training also backward, with a few rows of the example of the
/// first rank along `tensor`. Tensors keep their values. Collective over the mesh. If a rank fails while ranks communicate, `mesh["tensor"]` is
/// revoked.
/// @param parts what ranks compute together; its tensors are slices of those of `whole`
/// @throws Error on every rank, naming the output or the gradient that differs by more than rounding
void expect_same_numbers(const Mesh& mesh, const ModuleForComparison& whole, const ModuleForComparison& parts,
                         const std::vector<at::Tensor>& example);

}  // namespace tw
