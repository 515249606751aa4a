// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <tw/comm/mesh.hpp>
#include <vector>

namespace tw {

/// The mesh axes along which ranks process different samples.
inline const std::vector<std::string> sample_axes{"data", "shard"};
/// The mesh axes along which ranks share one model and process the same samples.
inline const std::vector<std::string> model_axes{"stage", "tensor", "layer"};

/// The size of an axis; 1 if the mesh has no such axis. Pure.
int size_along(const MeshShape& shape, const std::string& axis);
/// Those of `axes` whose size is greater than 1, in the same order. Pure.
std::vector<std::string> nontrivial_axes(const MeshShape& shape, const std::vector<std::string>& axes);

/// The communicator of this rank and the ranks that differ from it only along given axes of a mesh.
class RanksAlong {
 public:
  /// Collective over the mesh. @param mesh must outlive this object, and must not be moved during its lifetime
  /// @param axes the axes, in the order in which they number the ranks (the last one varies fastest). Axes of size 1, and axes that the mesh does not
  /// have, are ignored
  RanksAlong(const Mesh& mesh, const std::vector<std::string>& axes);

  /// Null if there is only this rank.
  const Communicator* comm() const noexcept;
  int size() const noexcept { return comm() == nullptr ? 1 : comm()->size(); }
  int rank() const noexcept { return comm() == nullptr ? 0 : comm()->rank(); }

 private:
  const Communicator* line_ = nullptr;  // one axis
  std::optional<Mesh> several_;
};

}  // namespace tw
