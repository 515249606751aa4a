// SPDX-License-Identifier: Apache-2.0
#include "model_ranks.hpp"

#include <string>

#include "mesh_axes.hpp"

namespace tw {
namespace {

std::vector<std::string> with_shard() {
  std::vector<std::string> axes = model_axes;
  axes.emplace_back("shard");
  return axes;
}

/// The axes of a mesh except `left_out`.
std::vector<std::string> axes_without(const MeshShape& shape, const std::string& left_out) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : shape.axes()) {
    if (axis.name != left_out) axes.push_back(axis.name);
  }
  return axes;
}

/// The mesh of the ranks that communicate in every update; empty: the whole mesh.
std::optional<Mesh> mesh_of_update(const Mesh& mesh, ReplicaSync replicas) {
  if (replicas == ReplicaSync::every_step || size_along(mesh.shape(), "data") == 1) return std::nullopt;
  const std::vector<std::string> axes = axes_without(mesh.shape(), "data");
  return axes.empty() ? Mesh(mesh.comm().split(mesh.comm().rank(), 0), {{"data", 1}}) : mesh.sub(axes);
}

}  // namespace

ModelRanks::ModelRanks(const Mesh& mesh, ReplicaSync replicas)
    : mesh_(mesh),
      replica_(mesh_of_update(mesh, replicas)),
      comm_(update_mesh().comm().dup()),
      places_(mesh, sample_axes),
      samples_(update_mesh(), sample_axes),
      model_(mesh, model_axes),
      parts_(mesh, with_shard()) {}

std::vector<int> ModelRanks::place_of() const {
  const MeshShape& shape = update_mesh().shape();
  const std::vector<std::string> along = nontrivial_axes(shape, sample_axes);
  std::vector<int> places;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const std::vector<int> coordinates = shape.coordinates_of(rank);
    int place = 0;
    for (const std::string& axis : along) {
      const size_t index = shape.index_of(axis);
      place = place * shape.axes()[index].size + coordinates[index];
    }
    places.push_back(place);
  }
  return places;
}

SumRanks ModelRanks::of_sums() const {
  const auto along = [](const Mesh& mesh, const char* axis) { return size_along(mesh.shape(), axis) > 1 ? &mesh[axis] : nullptr; };
  return {.data = along(update_mesh(), "data"), .shard = along(mesh_, "shard"), .model = model_.comm()};
}

}  // namespace tw
