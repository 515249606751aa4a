// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <tw/comm/ranks_along.hpp>

namespace tw {

int size_along(const MeshShape& shape, const std::string& axis) {
  for (const MeshAxis& each : shape.axes()) {
    if (each.name == axis) return each.size;
  }
  return 1;
}

std::vector<std::string> nontrivial_axes(const MeshShape& shape, const std::vector<std::string>& axes) {
  std::vector<std::string> found;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(found), [&](const std::string& axis) { return size_along(shape, axis) > 1; });
  return found;
}

RanksAlong::RanksAlong(const Mesh& mesh, const std::vector<std::string>& axes) {
  const std::vector<std::string> some = nontrivial_axes(mesh.shape(), axes);
  if (some.size() == 1) line_ = &mesh[some.front()];
  if (some.size() > 1) several_.emplace(mesh.sub(some));
}

const Communicator* RanksAlong::comm() const noexcept { return several_ ? &several_->comm() : line_; }

}  // namespace tw
