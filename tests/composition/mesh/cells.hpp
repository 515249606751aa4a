// SPDX-License-Identifier: Apache-2.0
// Which meshes are in the table, and what is promised in each cell. Pure.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <tw/comm/mesh.hpp>
#include <vector>

#include "models.hpp"

namespace tw::testing::mesh {

inline const std::vector<std::string> axes{"data", "shard", "stage", "tensor", "layer"};

/// All meshes of `ranks` ranks with at most three axes longer than 1.
inline std::vector<MeshShape> shapes_of(int ranks) {
  std::vector<std::vector<int>> sizes{{}};
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& some : sizes) {
      for (int size = 1; size <= ranks; ++size) {
        longer.push_back(some);
        longer.back().push_back(size);
      }
    }
    sizes = std::move(longer);
  }
  std::vector<MeshShape> shapes;
  for (const std::vector<int>& some : sizes) {
    int product = 1;
    for (const int size : some) product *= size;
    if (product != ranks || std::ranges::count_if(some, [](int size) { return size > 1; }) > 3) continue;
    std::vector<MeshAxis> of_shape;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (some[i] > 1) of_shape.push_back({axes[i], some[i]});
    }
    if (of_shape.empty()) of_shape.push_back({"data", 1});
    shapes.emplace_back(ranks, of_shape);
  }
  return shapes;
}

struct Promise {
  enum class Kind { equal, refused, not_yet };
  Kind kind = Kind::equal;
  std::string text = {};  ///< of the error, or why it does not work yet; equal: of an error that is right, too
};

inline int along(const MeshShape& shape, const std::string& axis) {
  for (const MeshAxis& each : shape.axes()) {
    if (each.name == axis) return each.size;
  }
  return 1;
}

/// What parallelize() promises for a model on a mesh.
inline Promise promise_of(const TableModel& model, const MeshShape& shape) {
  using Of = Promise::Kind;
  const auto has = [&](const std::string& axis) { return along(shape, axis) > 1; };
  if (has("layer") && !is_layered(model.kind)) return {Of::refused, "pass blocks of layer_parallel"};
  if (is_layered(model.kind) && along(shape, "stage") > model.most_stages) return {Of::refused, "each needs at least one"};
  const bool is_whole = model.kind == Kind::module || model.kind == Kind::odd;
  if (has("tensor") && !is_whole && !has_split_layers(model.kind)) {
    return {Of::refused, "no layer of the model is split along `tensor`"};
  }
  if (has("tensor") && is_whole && model.has_sparse) return {Of::refused, "has sparse gradients, which operators that are divided"};
  if ((has("stage") || has("tensor")) && model.kind == Kind::odd) return {Of::refused, model.refusal};
  if (model.kind == Kind::module && along(shape, "stage") > model.most_stages) {  // divided operators may have more places for cuts
    return {has("tensor") ? Of::equal : Of::refused, "the model can be cut into at most"};
  }
  if (has("shard") && model.has_sparse) return {Of::refused, "has sparse gradients, which ranks along `shard` cannot divide"};
  return {};
}

/// `settings` with one stage on each rank if the model has too few parts for several.
inline Settings fitting(Settings settings, const TableModel& model, const MeshShape& shape) {
  if (pipeline::stages_per_device(settings.schedule) * along(shape, "stage") > model.most_stages)
    settings.schedule = pipeline::ScheduleKind::one_forward_one_backward;
  return settings;
}

}  // namespace tw::testing::mesh
