// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// One axis of a mesh.
struct MeshAxis {
  std::string name;
  int size = -1;  ///< -1: all remaining ranks; at most one axis may have this
};

/// The arithmetic of a mesh: ranks laid out in a box, with the last axis fastest (as in a C array). Pure.
class MeshShape {
 public:
  /// @throws ContractError naming the sizes if their product is not `ranks`; also for no axis, a repeated or empty name, a second -1, or a size below
  /// 1.
  MeshShape(int ranks, std::vector<MeshAxis> axes);

  /// The axes, with every size resolved.
  const std::vector<MeshAxis>& axes() const& noexcept { return axes_; }
  std::vector<MeshAxis> axes() && noexcept { return std::move(axes_); }
  int ranks() const noexcept { return ranks_; }
  /// The index of axis `name`. @throws ContractError naming the existing axes.
  size_t index_of(std::string_view name) const;
  /// One coordinate for each axis. @param rank 0 to ranks - 1.
  std::vector<int> coordinates_of(int rank) const;
  /// The inverse of coordinates_of().
  int rank_at(const std::vector<int>& coordinates) const;
  /// Ranks whose coordinates equal those of `rank` except along `names`; ascending, `rank` included.
  std::vector<int> group_of(int rank, const std::vector<std::string>& names) const;
  /// Such as "data=2 x stage=4".
  std::string describe() const;

 private:
  int ranks_;
  std::vector<MeshAxis> axes_;
};

/// Ranks with named axes. Each axis has a communicator of the ranks that differ from this one along that axis only.
///
/// ```
/// Mesh mesh(comm, {{"data", 2}, {"stage", -1}});   // 8 ranks: 2 x 4
/// mesh["stage"].rank();                            // which stage I am
/// ```
class Mesh {
 public:
  /// Collective. @param comm the ranks, in this order; the mesh makes its own communicators.
  /// @throws ContractError like MeshShape's constructor
  Mesh(const Communicator& comm, std::vector<MeshAxis> axes);

  /// A mesh with ranks reordered to fit the nodes that they run on. Neighbours along `tensor` share a node where possible, then those along `stage`,
  /// `layer`, `shard`, other axes (last one first), `data` and `search`. If this gains nothing, ranks keep the order of `comm`. Rank 0 always stays
  /// rank 0. Collective. @throws ContractError like MeshShape's constructor
  static Mesh on_nodes(const Communicator& comm, std::vector<MeshAxis> axes);

  const MeshShape& shape() const& noexcept { return shape_; }
  MeshShape shape() && noexcept { return std::move(shape_); }
  /// All ranks of the mesh.
  const Communicator& comm() const& noexcept { return comm_; }
  const Communicator& comm() && = delete;
  /// What on_nodes() did, the same on all ranks: "mesh data=2 x tensor=2 over 2 nodes: tensor in nodes, data between nodes (ranks 1 and 2 change
  /// places)", with rank numbers of the `comm` passed. Empty for other meshes.
  const std::string& layout() const noexcept { return layout_; }
  /// The communicator of an axis; a rank's coordinate is its rank there. @throws ContractError for an unknown name, listing the existing axes.
  const Communicator& operator[](std::string_view axis) const& { return lines_[shape_.index_of(axis)]; }
  const Communicator& operator[](std::string_view axis) && = delete;
  int coordinate(std::string_view axis) const { return (*this)[axis].rank(); }
  /// The mesh of the ranks that differ from this one along `axes` only, with the axes in that order. Collective over the mesh.
  Mesh sub(const std::vector<std::string>& axes) const;

 private:
  Mesh(MeshShape shape, Communicator comm, std::string layout);

  MeshShape shape_;
  Communicator comm_;
  std::string layout_;
  std::vector<Communicator> lines_;  // by axis
};

}  // namespace tw
