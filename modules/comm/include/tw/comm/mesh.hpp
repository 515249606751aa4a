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
  int size = -1;  ///< -1: the number of ranks divided by the other sizes; at most one axis may have it
};

/// The arithmetic of a mesh: ranks laid out in a box, where the last axis varies fastest (as in a C array). Pure.
class MeshShape {
 public:
  /// @throws ContractError, naming the sizes, if their product is not `ranks`; also for no axis, a repeated or empty name, a second -1, or another
  /// size below 1.
  MeshShape(int ranks, std::vector<MeshAxis> axes);

  /// The axes, with every size resolved.
  const std::vector<MeshAxis>& axes() const& noexcept { return axes_; }
  std::vector<MeshAxis> axes() && noexcept { return std::move(axes_); }
  int ranks() const noexcept { return ranks_; }
  /// The index of axis `name`. @throws ContractError for an unknown name, listing the existing axes.
  size_t index_of(std::string_view name) const;
  /// One coordinate for each axis. @param rank 0 to ranks - 1.
  std::vector<int> coordinates_of(int rank) const;
  /// The rank at these coordinates; the inverse of coordinates_of().
  int rank_at(const std::vector<int>& coordinates) const;
  /// The ranks whose coordinates equal those of `rank`, except along the axes `names`; ascending, including `rank`.
  std::vector<int> group_of(int rank, const std::vector<std::string>& names) const;
  /// Such as "data=2 x stage=4".
  std::string describe() const;

 private:
  int ranks_;
  std::vector<MeshAxis> axes_;
};

/// Ranks with named axes. Each axis has a communicator of this rank and the ranks that differ from it along that axis only.
///
/// ```
/// Mesh mesh(comm, {{"data", 2}, {"stage", -1}});   // 8 ranks: 2 x 4
/// mesh["stage"].rank();                            // which stage I am
/// ```
class Mesh {
 public:
  /// Collective. @param comm has the ranks of the mesh, in the same order; the mesh makes its own communicators.
  /// @throws ContractError as MeshShape's constructor does
  Mesh(const Communicator& comm, std::vector<MeshAxis> axes);

  /// A mesh with ranks reordered to fit the nodes that they run on. Neighbours along the mesh axis `tensor` share a node where possible, then those
  /// along `stage`, `layer`, `shard`, axes of other names (last one first), `data` and `search`. If reordering gains nothing, ranks keep the order of
  /// `comm`. Rank 0 always stays rank 0. Collective. @throws ContractError as MeshShape's constructor does
  static Mesh on_nodes(const Communicator& comm, std::vector<MeshAxis> axes);

  const MeshShape& shape() const& noexcept { return shape_; }
  MeshShape shape() && noexcept { return std::move(shape_); }
  /// The communicator of all ranks of the mesh.
  const Communicator& comm() const& noexcept { return comm_; }
  const Communicator& comm() && = delete;
  /// What on_nodes() did, the same on all ranks: "mesh data=2 x tensor=2 over 2 nodes: tensor in nodes, data between nodes (ranks 1 and 2 change
  /// places)". These are ranks in the `comm` passed to on_nodes(). Empty for meshes that on_nodes() did not make.
  const std::string& layout() const noexcept { return layout_; }
  /// The communicator of an axis; its rank() is the coordinate, and the last part of its name() is the axis. @throws ContractError for an unknown
  /// name, listing the existing axes.
  const Communicator& operator[](std::string_view axis) const& { return lines_[shape_.index_of(axis)]; }
  const Communicator& operator[](std::string_view axis) && = delete;
  int coordinate(std::string_view axis) const { return (*this)[axis].rank(); }
  /// The mesh of this rank and the ranks that differ from it along `axes` only, with the axes in that order. Collective over this mesh.
  Mesh sub(const std::vector<std::string>& axes) const;

 private:
  Mesh(MeshShape shape, Communicator comm, std::string layout);

  MeshShape shape_;
  Communicator comm_;
  std::string layout_;
  std::vector<Communicator> lines_;  // by axis
};

}  // namespace tw
