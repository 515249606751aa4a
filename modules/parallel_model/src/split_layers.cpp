// SPDX-License-Identifier: Apache-2.0
#include "split_layers.hpp"

#include <ATen/ops/full.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/model_parts.hpp>

#include "mesh_axes.hpp"

namespace tw {

bool has_split_layers(const torch::nn::Module& module) {
  const auto is_sliced = [](const torch::nn::Module& each) { return dynamic_cast<const SlicedModule*>(&each) != nullptr; };
  const auto parts = module.modules(/*include_self=*/false);  // to include itself, a shared pointer would have to hold it
  return is_sliced(module) || std::ranges::any_of(parts, [&](const auto& each) { return is_sliced(*each); });
}

bool any_split_layers(const Mesh& mesh, bool has_some) {
  const at::Tensor split = at::full({}, has_some ? 1 : 0, at::kLong);
  allreduce(mesh.comm(), split, ReduceOp::max);
  return split.item<int64_t>() > 0;
}

void expect_split_layers(const Mesh& mesh, bool has_some) {
  if (size_along(mesh.shape(), "tensor") == 1) return;
  TW_EXPECTS(
      any_split_layers(mesh, has_some), "the mesh is ", mesh.shape().describe(),
      ", but no layer of the model is split along `tensor`: build the blocks with split layers, such as tensor_parallel::ColumnParallelLinear, or ",
      "pass a whole module, whose operators can be divided");
}

}  // namespace tw
