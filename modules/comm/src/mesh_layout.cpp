// SPDX-License-Identifier: Apache-2.0
// Ranks are bundled along the closest axis, those bundles along the next axis, and so on. A bundle consists of parts that lie on the same nodes, as
// long as there are enough of them; the remaining parts are bundled last.
#include "mesh_layout.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <tw/base/concat.hpp>

namespace tw {
namespace {

constexpr std::array<std::string_view, 4> close_axes{"tensor", "stage", "layer", "shard"};
constexpr std::array<std::string_view, 2> far_axes{"data", "search"};

size_t distance_of(std::string_view axis) {
  const auto close = std::find(close_axes.begin(), close_axes.end(), axis);
  const auto far = std::find(far_axes.begin(), far_axes.end(), axis);
  const auto before = static_cast<size_t>(close - close_axes.begin());
  return close == close_axes.end() && far != far_axes.end() ? before + 1 + static_cast<size_t>(far - far_axes.begin()) : before;
}

std::vector<size_t> closest_first(const MeshShape& shape) {
  std::vector<size_t> axes(shape.axes().size());
  std::iota(axes.rbegin(), axes.rend(), size_t{0});
  std::stable_sort(axes.begin(), axes.end(),
                   [&](size_t a, size_t b) { return distance_of(shape.axes()[a].name) < distance_of(shape.axes()[b].name); });
  return axes;
}

/// Ranks in the order of their places; the closest axis varies fastest.
using Bundle = std::vector<int>;

// Joins the given bundles into bundles of `size` parts. @param parts by first rank; so is the result, and rank 0 stays first
std::vector<Bundle> bundled(std::vector<Bundle> parts, size_t size, const Nodes& nodes) {
  std::map<std::vector<int>, size_t> kind_of;  // by the nodes of the ranks
  std::vector<std::vector<Bundle>> kinds;
  for (Bundle& part : parts) {
    std::vector<int> on;
    for (const int rank : part) on.push_back(nodes.place_of[static_cast<size_t>(rank)].node);
    const auto [kind, is_new] = kind_of.try_emplace(std::move(on), kinds.size());
    if (is_new) kinds.emplace_back();
    kinds[kind->second].push_back(std::move(part));
  }
  std::vector<Bundle> all, left_over;
  const auto add = [&all, size](const std::vector<Bundle>& some) {
    for (size_t i = 0; i < some.size(); ++i) {
      if (i % size == 0) all.emplace_back();
      all.back().insert(all.back().end(), some[i].begin(), some[i].end());
    }
  };
  for (std::vector<Bundle>& kind : kinds) {
    const auto whole = kind.begin() + static_cast<std::ptrdiff_t>(kind.size() / size * size);
    left_over.insert(left_over.end(), whole, kind.end());
    kind.erase(whole, kind.end());
    add(kind);
  }
  add(left_over);
  std::sort(all.begin(), all.end());
  return all;
}

// Puts as many neighbours on one node as the sizes allow. @return ranks by place
std::vector<int> by_bundles(const MeshShape& shape, const std::vector<size_t>& axes, const Nodes& nodes) {
  std::vector<Bundle> bundles;
  for (int rank = 0; rank < shape.ranks(); ++rank) bundles.push_back({rank});
  for (const size_t axis : axes) bundles = bundled(std::move(bundles), static_cast<size_t>(shape.axes()[axis].size), nodes);
  std::vector<int> rank_at(static_cast<size_t>(shape.ranks()));
  std::vector<int> coordinates(axes.size(), 0);
  for (const int rank : bundles.front()) {
    rank_at[static_cast<size_t>(shape.rank_at(coordinates))] = rank;
    for (const size_t axis : axes) {  // count up
      if (++coordinates[axis] < shape.axes()[axis].size) break;
      coordinates[axis] = 0;
    }
  }
  return rank_at;
}

// The number of pairs of neighbours along an axis that share a node.
int64_t pairs_in_nodes(const MeshShape& shape, size_t axis, const std::vector<int>& rank_at, const Nodes& nodes) {
  int step = 1;
  for (size_t later = axis + 1; later < shape.axes().size(); ++later) step *= shape.axes()[later].size;
  const auto node_at = [&](int place) { return nodes.place_of[static_cast<size_t>(rank_at[static_cast<size_t>(place)])].node; };
  int64_t pairs = 0;
  for (int place = 0; place + step < shape.ranks(); ++place) {
    const bool is_last = place / step % shape.axes()[axis].size == shape.axes()[axis].size - 1;
    if (!is_last && node_at(place) == node_at(place + step)) ++pairs;
  }
  return pairs;
}

std::vector<int64_t> pairs_in_nodes(const MeshShape& shape, const std::vector<size_t>& axes, const std::vector<int>& rank_at, const Nodes& nodes) {
  std::vector<int64_t> all;
  for (const size_t axis : axes) all.push_back(pairs_in_nodes(shape, axis, rank_at, nodes));
  return all;
}

std::string describe(const MeshShape& shape, const std::vector<size_t>& axes, const std::vector<int>& rank_at, const Nodes& nodes) {
  std::array<std::string, 3> names;  // axes in nodes, partly in nodes, between nodes
  for (const size_t axis : axes) {
    const int size = shape.axes()[axis].size;
    if (size == 1) continue;
    const int64_t pairs = pairs_in_nodes(shape, axis, rank_at, nodes);
    std::string& some = names[pairs == int64_t{shape.ranks() / size} * (size - 1) ? 0 : pairs > 0 ? 1 : 2];
    some += (some.empty() ? "" : " and ") + shape.axes()[axis].name;
  }
  constexpr std::array where{" in nodes", " partly in nodes", " between nodes"};
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) text += concat(text.empty() ? ": " : ", ", names[i], where[i]);
  }
  std::vector<int> moved;
  for (int place = 0; place < shape.ranks(); ++place) {
    if (rank_at[static_cast<size_t>(place)] != place) moved.push_back(place);
  }
  const std::string order = moved.empty()       ? "ranks in their own order"
                            : moved.size() == 2 ? concat("ranks ", moved[0], " and ", moved[1], " change places")
                                                : concat(moved.size(), " of ", shape.ranks(), " ranks change places");
  return concat("mesh ", shape.describe(), " over ", nodes.count(), nodes.count() == 1 ? " node" : " nodes", text, " (", order, ")");
}

}  // namespace

MeshLayout layout_on_nodes(const MeshShape& shape, const Nodes& nodes) {
  const std::vector<size_t> axes = closest_first(shape);
  std::vector<int> rank_at(static_cast<size_t>(shape.ranks()));
  std::iota(rank_at.begin(), rank_at.end(), 0);
  std::vector<int> other = by_bundles(shape, axes, nodes);
  if (pairs_in_nodes(shape, axes, other, nodes) > pairs_in_nodes(shape, axes, rank_at, nodes)) rank_at = std::move(other);
  std::string description = describe(shape, axes, rank_at, nodes);
  return {std::move(rank_at), std::move(description)};
}

}  // namespace tw
