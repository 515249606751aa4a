// SPDX-License-Identifier: Apache-2.0
// A module without split layers on the mesh axis `tensor`: its operators are divided, as far as experiments show how.
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <tw/comm/mesh.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/parallel_model/options.hpp>
#include <vector>

namespace tw {

struct DividedOperators {
  /// This rank's slices and whole tensors, under the names that they have in the whole module. It has no code.
  std::shared_ptr<torch::nn::Module> module;
  graph::ModeGraphs graphs;  ///< what each rank computes, with `module`'s tensors
  std::string explanation;
};

/// Captures `module`, lets rank 0 find splits, makes this rank's slices, and compares a pass over few rows with the whole module. Collective over the
/// mesh, which has an axis `tensor`.
/// @param module with equal values on all ranks. Its whole tensors are shared. @throws ContractError on every rank if parameters have sparse
/// gradients or are on an accelerator, or the module communicates along `tensor` by itself; Error with the reason of graph::capture() if the module
/// cannot be captured, and if the numbers differ
DividedOperators divide_operators(const Mesh& mesh, torch::nn::Module& module, const graph::Forward& forward, const std::vector<at::Tensor>& example,
                                  const ParallelOptions& options);

}  // namespace tw
