// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <tw/comm/mesh.hpp>
#include <vector>

namespace tw {

/// Axes along which ranks have different samples.
inline const std::vector<std::string> sample_axes{"data", "shard"};
/// Axes along which ranks hold a model together, and have the same samples.
inline const std::vector<std::string> model_axes{"stage", "tensor", "layer"};

/// The size of an axis; 1 if the mesh has no such axis. Pure.
int size_along(const MeshShape& shape, const std::string& axis);
/// Those of `axes` that are longer than 1. Pure.
std::vector<std::string> long_axes(const MeshShape& shape, const std::vector<std::string>& axes);

/// The ranks along some axes of a mesh.
class RanksAlong {
 public:
  /// Collective over the mesh, which is borrowed. @param axes those of length 1, or that do not exist, are left out
  RanksAlong(const Mesh& mesh, const std::vector<std::string>& axes);

  /// Null for a single rank.
  const Communicator* comm() const noexcept;
  int size() const noexcept { return comm() == nullptr ? 1 : comm()->size(); }
  int rank() const noexcept { return comm() == nullptr ? 0 : comm()->rank(); }

 private:
  const Communicator* line_ = nullptr;  // one axis
  std::optional<Mesh> several_;
};

}  // namespace tw
