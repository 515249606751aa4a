// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/mesh.hpp>

#include <algorithm>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw {
namespace {

std::string describe_axes(const std::vector<MeshAxis>& axes) {
  return joined(axes, " x ", [](const MeshAxis& axis) { return concat(axis.name, '=', axis.size); });
}

}  // namespace

MeshShape::MeshShape(int ranks, std::vector<MeshAxis> axes) : ranks_(ranks), axes_(std::move(axes)) {
  const std::string given = describe_axes(axes_);
  TW_EXPECTS(!axes_.empty(), "a mesh needs at least one axis");
  MeshAxis* open = nullptr;
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  int64_t known = 1;
  for (MeshAxis& axis : axes_) {
    const auto same_name = [&](const MeshAxis& other) { return other.name == axis.name; };
    TW_EXPECTS(!axis.name.empty(), "every axis of a mesh needs a name: ", given);
    TW_EXPECTS(std::count_if(axes_.begin(), axes_.end(), same_name) == 1, "the mesh ", given, " has the axis '", axis.name, "' twice");
    TW_EXPECTS(axis.size >= 1 || axis.size == -1, "the mesh ", given, " has the size ", axis.size,
               ": a size must be at least 1, or -1 for all remaining ranks");
    TW_EXPECTS(axis.size != -1 || open == nullptr, "the mesh ", given, " leaves two sizes open; only one can be inferred");
    if (axis.size == -1) {
      open = &axis;
    } else {
      known = known > most / axis.size ? most : known * axis.size;
    }
  }
  if (open != nullptr) {
    TW_EXPECTS(ranks % known == 0, "the mesh ", given, " does not fit ", ranks, " ranks: ", known, " does not divide ", ranks);
    open->size = static_cast<int>(ranks / known);
  }
  TW_EXPECTS(open != nullptr || known == ranks, "the mesh ", given, " needs ", known, " ranks, but there are ", ranks);
}

size_t MeshShape::index_of(std::string_view name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& axis) { return axis.name == name; });
  TW_EXPECTS(found != axes_.end(), "the mesh ", describe(), " has no axis '", name, "'");
  return static_cast<size_t>(found - axes_.begin());
}

std::vector<int> MeshShape::coordinates_of(int rank) const {
  TW_EXPECTS(rank >= 0 && rank < ranks_, "the mesh ", describe(), " has no rank ", rank);
  std::vector<int> coordinates(axes_.size());
  for (size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return coordinates;
}

int MeshShape::rank_at(const std::vector<int>& coordinates) const {
  TW_EXPECTS(coordinates.size() == axes_.size(), "the mesh ", describe(), " needs ", axes_.size(), " coordinates, got ", coordinates.size());
  int rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    TW_EXPECTS(coordinates[i] >= 0 && coordinates[i] < axes_[i].size, "the mesh ", describe(), " has no coordinate ", coordinates[i], " on axis '",
               axes_[i].name, "'");
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

std::vector<int> MeshShape::group_of(int rank, const std::vector<std::string>& names) const {
  std::vector<bool> varies(axes_.size(), false);
  for (const std::string& name : names) varies[index_of(name)] = true;
  const auto mine = coordinates_of(rank);
  std::vector<int> group;
  for (int other = 0; other < ranks_; ++other) {
    const auto theirs = coordinates_of(other);
    bool same = true;
    for (size_t i = 0; i < axes_.size(); ++i) same = same && (varies[i] || theirs[i] == mine[i]);
    if (same) group.push_back(other);
  }
  return group;
}

std::string MeshShape::describe() const { return describe_axes(axes_); }

}  // namespace tw
