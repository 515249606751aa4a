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
  int size = -1;  ///< -1: whatever is left; once at most
};

/// The arithmetic of a mesh: ranks laid out in a box, the last axis running fastest (as in a C array). Pure.
class MeshShape {
 public:
  /// @throws ContractError when sizes do not multiply to `ranks`, naming them; for no axis, a name given twice or empty, a second -1, a size below 1.
  MeshShape(int ranks, std::vector<MeshAxis> axes);

  /// With every size known.
  const std::vector<MeshAxis>& axes() const noexcept { return axes_; }
  int ranks() const noexcept { return ranks_; }
  /// The place of axis `name`. @throws ContractError naming the axes that there are.
  size_t index_of(std::string_view name) const;
  /// One coordinate for each axis. @param rank 0 to ranks - 1.
  std::vector<int> coordinates_of(int rank) const;
  /// The inverse of coordinates_of().
  int rank_at(const std::vector<int>& coordinates) const;
  /// Ranks that differ from `rank` in the coordinates of `names` only, itself included, ascending.
  std::vector<int> group_of(int rank, const std::vector<std::string>& names) const;
  /// Such as "data=2 x stage=4".
  std::string describe() const;

 private:
  int ranks_;
  std::vector<MeshAxis> axes_;
};

/// Ranks with named axes, and a communicator for each axis: the ranks that differ from this one along that axis alone.
///
/// ```
/// Mesh mesh(comm, {{"data", 2}, {"stage", -1}});   // 8 ranks: 2 x 4
/// mesh["stage"].rank();                            // which stage I am
/// ```
class Mesh {
 public:
  /// Collective. @param comm its ranks, in its order; the mesh has communicators of its own.
  /// @throws ContractError as MeshShape
  Mesh(const Communicator& comm, std::vector<MeshAxis> axes);

  /// The same axes laid out by the nodes that ranks live on, for comm() in another order: neighbours along `tensor` lie in one node where they can,
  /// then those along `stage`, `layer`, `shard`, axes of other names (the last one first), `data` and `search`. Where that gains nothing the order of
  /// `comm` stays, and rank 0 stays rank 0. Collective. @throws ContractError as MeshShape
  static Mesh on_nodes(const Communicator& comm, std::vector<MeshAxis> axes);

  const MeshShape& shape() const noexcept { return shape_; }
  /// All ranks of the mesh.
  const Communicator& comm() const noexcept { return comm_; }
  /// What on_nodes() did, the same on all ranks: "mesh data=2 x tensor=2 over 2 nodes: tensor in nodes, data between nodes (ranks 1 and 2 change
  /// places)", of ranks of the communicator that it was given. Empty of other meshes.
  const std::string& layout() const noexcept { return layout_; }
  /// The communicator of an axis; a rank's coordinate is its rank there. @throws ContractError for an unknown name, naming those there are.
  const Communicator& operator[](std::string_view axis) const { return lines_[shape_.index_of(axis)]; }
  int coordinate(std::string_view axis) const { return (*this)[axis].rank(); }
  /// The mesh of the ranks that differ from this one along `axes` only, in that order. Collective over the mesh.
  Mesh sub(const std::vector<std::string>& axes) const;

 private:
  Mesh(MeshShape shape, Communicator comm, std::string layout);

  MeshShape shape_;
  Communicator comm_;
  std::string layout_;
  std::vector<Communicator> lines_;  // by axis
};

}  // namespace tw
