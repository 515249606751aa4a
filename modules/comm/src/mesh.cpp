// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/mesh.hpp>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/topology.hpp>

#include "mesh_layout.hpp"

namespace tw {
namespace {

// A group's color is its lowest rank; its name those of its axes. @param key orders the ranks of the group in the new communicator
Communicator split_off(const Communicator& comm, const MeshShape& shape, const std::vector<std::string>& names, int key) {
  return comm.split(shape.group_of(comm.rank(), names).front(), key, joined(names, "+"));
}

std::vector<Communicator> lines_of(const Communicator& comm, const MeshShape& shape) {
  std::vector<Communicator> lines;
  for (const MeshAxis& axis : shape.axes()) lines.push_back(split_off(comm, shape, {axis.name}, comm.rank()));
  return lines;
}

Nodes nodes_of(const Communicator& comm) {
  const int64_t first = ranks_of_this_node(comm).front();
  std::vector<int64_t> first_of_node(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&first, 1)), std::as_writable_bytes(std::span(first_of_node)));
  return Nodes(first_of_node);
}

}  // namespace

Mesh::Mesh(const Communicator& comm, std::vector<MeshAxis> axes)
    : shape_(comm.size(), std::move(axes)), comm_(comm.dup()), lines_(lines_of(comm_, shape_)) {}

Mesh::Mesh(MeshShape shape, Communicator comm, std::string layout)
    : shape_(std::move(shape)), comm_(std::move(comm)), layout_(std::move(layout)), lines_(lines_of(comm_, shape_)) {}

Mesh Mesh::on_nodes(const Communicator& comm, std::vector<MeshAxis> axes) {
  MeshShape shape(comm.size(), std::move(axes));
  MeshLayout layout = layout_on_nodes(shape, nodes_of(comm));
  const auto place = std::find(layout.rank_at.begin(), layout.rank_at.end(), comm.rank()) - layout.rank_at.begin();
  const bool is_own_order = std::is_sorted(layout.rank_at.begin(), layout.rank_at.end());  // the name then shows that ranks are those of `comm`
  Communicator ordered = is_own_order ? comm.dup() : comm.split(0, static_cast<int>(place));
  return {std::move(shape), std::move(ordered), std::move(layout.description)};
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
