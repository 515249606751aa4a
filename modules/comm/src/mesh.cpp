// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/mesh.hpp>

#include <tw/base/contract.hpp>

namespace tw {
namespace {

// A group is known by its lowest rank. @param order by rank in the mesh: its rank in the new communicator, among its group
Communicator split_off(const Communicator& comm, const MeshShape& shape, const std::vector<std::string>& names, int key) {
  return comm.split(shape.group_of(comm.rank(), names).front(), key);
}

}  // namespace

Mesh::Mesh(const Communicator& comm, std::vector<MeshAxis> axes) : shape_(comm.size(), std::move(axes)), comm_(comm.dup()) {
  for (const MeshAxis& axis : shape_.axes()) lines_.push_back(split_off(comm_, shape_, {axis.name}, comm_.rank()));
}

Mesh Mesh::sub(const std::vector<std::string>& names) const {
  std::vector<MeshAxis> axes;
  int key = 0;
  for (const std::string& name : names) {
    axes.push_back(shape_.axes()[shape_.index_of(name)]);
    key = key * axes.back().size + coordinate(name);
  }
  return {split_off(comm_, shape_, names, key), std::move(axes)};
}

}  // namespace tw
