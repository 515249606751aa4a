// SPDX-License-Identifier: Apache-2.0
#include "mesh_axes.hpp"

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw {

void expect_axes(const MeshShape& shape, const std::vector<std::pair<std::string, std::string>>& refused) {
  const auto is_in = [](const std::vector<std::string>& axes, const std::string& name) { return std::ranges::find(axes, name) != axes.end(); };
  for (const MeshAxis& axis : shape.axes()) {
    TW_EXPECTS(axis.size == 1 || is_in(sample_axes, axis.name) || is_in(model_axes, axis.name), "the mesh ", shape.describe(), " has an axis '",
               axis.name, "': a model can be divided only along data, shard, stage, tensor and layer");
  }
  for (const auto& [axis, why] : refused) TW_EXPECTS(size_along(shape, axis) == 1, "the mesh is ", shape.describe(), ", but ", why);
}

bool reads_outputs(const Mesh& mesh) {
  return std::ranges::all_of(std::vector<std::string>{"tensor", "layer"},
                             [&](const std::string& axis) { return size_along(mesh.shape(), axis) == 1 || mesh.coordinate(axis) == 0; });
}

}  // namespace tw
