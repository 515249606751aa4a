// SPDX-License-Identifier: Apache-2.0
// Mesh arithmetic, compared with an odometer that counts through all ranks.
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <tw/base/contract.hpp>
#include <tw/comm/mesh.hpp>

namespace mesh_test {

using tw::MeshAxis;
using tw::MeshShape;
using tw::testing::message_of;
using Axes = std::vector<MeshAxis>;

const std::vector<std::string> names{"a", "b", "c", "d"};

/// Every list of up to four sizes with product `ranks`.
std::vector<std::vector<int>> factorisations(int ranks) {
  std::vector<std::vector<int>> all;
  std::vector<int> sizes;
  const std::function<void(int)> extend = [&](int left) {
    if (!sizes.empty() && left == 1) all.push_back(sizes);
    if (sizes.size() == names.size()) return;
    for (int size = 1; size <= left; ++size) {
      if (left % size != 0) continue;
      sizes.push_back(size);
      extend(left / size);
      sizes.pop_back();
    }
  };
  extend(ranks);
  return all;
}

Axes axes_of(const std::vector<int>& sizes) {
  Axes axes;
  for (size_t i = 0; i < sizes.size(); ++i) axes.push_back({names[i], sizes[i]});
  return axes;
}

/// The coordinates of all ranks in counting order: the last axis first, each carrying into the previous one.
std::vector<std::vector<int>> count_through(const std::vector<int>& sizes, int ranks) {
  std::vector<std::vector<int>> all{std::vector<int>(sizes.size(), 0)};
  while (static_cast<int>(all.size()) < ranks) {
    std::vector<int> next = all.back();
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (++next[axis] < sizes[axis]) break;
      next[axis] = 0;
    }
    all.push_back(next);
  }
  return all;
}

/// Calls `check(shape, coordinates of all ranks)` for every mesh of up to 24 ranks.
void for_all_meshes(const std::function<void(const MeshShape&, const std::vector<std::vector<int>>&)>& check) {
  for (int ranks = 1; ranks <= 24; ++ranks) {
    for (const auto& sizes : factorisations(ranks)) {
      const MeshShape shape(ranks, axes_of(sizes));
      SCOPED_TRACE(shape.describe());
      check(shape, count_through(sizes, ranks));
    }
  }
}

void expect_refusal(int ranks, const Axes& axes, const std::string& message) {
  const std::string text = message_of([&] { MeshShape(ranks, axes); });
  EXPECT_NE(text.find(message + " ["), std::string::npos) << text;
}

TEST(MeshShape, TheOracleCounts) {
  EXPECT_EQ(count_through({2, 3}, 6), (std::vector<std::vector<int>>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(factorisations(4).size(), 1U + 3U + 6U + 10U);  // of one axis, two, three, four
}

TEST(MeshShape, CoordinatesAreCountedWithTheLastAxisRunningFastest) {
  for_all_meshes([](const MeshShape& shape, const std::vector<std::vector<int>>& coordinates) {
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      EXPECT_EQ(shape.coordinates_of(rank), coordinates[static_cast<size_t>(rank)]) << rank;
      EXPECT_EQ(shape.rank_at(coordinates[static_cast<size_t>(rank)]), rank);
    }
  });
}

TEST(MeshShape, AGroupIsAllRanksThatDifferOnItsAxesOnly) {
  for_all_meshes([](const MeshShape& shape, const std::vector<std::vector<int>>& coordinates) {
    const size_t axes = shape.axes().size();
    for (size_t mask = 0; mask < (size_t{1} << axes); ++mask) {
      std::vector<std::string> varying;
      for (size_t axis = 0; axis < axes; ++axis) {
        if ((mask >> axis) & 1) varying.insert(varying.begin(), names[axis]);  // in a different order than the mesh's, which does not matter
      }
      for (size_t rank = 0; rank < coordinates.size(); ++rank) {
        std::vector<int> expected;
        for (size_t other = 0; other < coordinates.size(); ++other) {
          bool belongs = true;
          for (size_t axis = 0; axis < axes; ++axis) {
            if (((mask >> axis) & 1) == 0 && coordinates[other][axis] != coordinates[rank][axis]) belongs = false;
          }
          if (belongs) expected.push_back(static_cast<int>(other));
        }
        EXPECT_EQ(shape.group_of(static_cast<int>(rank), varying), expected) << "rank " << rank << ", axes " << mask;
      }
    }
  });
}

TEST(MeshShape, InfersWhateverSizeIsLeftOpen) {
  for_all_meshes([](const MeshShape& shape, const std::vector<std::vector<int>>&) {
    for (size_t open = 0; open < shape.axes().size(); ++open) {
      Axes axes = shape.axes();
      axes[open].size = -1;
      EXPECT_EQ(MeshShape(shape.ranks(), axes).describe(), shape.describe());
    }
  });
  EXPECT_EQ(MeshShape(6, {{"a"}}).axes()[0].size, 6);  // the default size is open
}

TEST(MeshShape, KnowsItsAxesByName) {
  const MeshShape shape(8, {{"data", 2}, {"stage", -1}});
  EXPECT_EQ(shape.describe(), "data=2 x stage=4");
  EXPECT_EQ(shape.ranks(), 8);
  EXPECT_EQ(shape.index_of("data"), 0U);
  EXPECT_EQ(shape.index_of("stage"), 1U);
  EXPECT_NE(message_of([&] { shape.index_of("stages"); }).find("the mesh data=2 x stage=4 has no axis 'stages' ["), std::string::npos);
  EXPECT_NE(message_of([&] { shape.group_of(0, {"data", "x"}); }).find("the mesh data=2 x stage=4 has no axis 'x' ["), std::string::npos);
}

TEST(MeshShape, RefusesAxesThatMakeNoMesh) {
  expect_refusal(4, {}, "a mesh needs at least one axis");
  expect_refusal(4, {{"a", 2}, {"", 2}}, "every axis of a mesh needs a name: a=2 x =2");
  expect_refusal(4, {{"a", 2}, {"b", 2}, {"a", 1}}, "the mesh a=2 x b=2 x a=1 has the axis 'a' twice");
  expect_refusal(4, {{"a", 0}, {"b", 4}}, "the mesh a=0 x b=4 has the size 0: a size must be at least 1, or -1 for all remaining ranks");
  expect_refusal(4, {{"a", -2}, {"b", -2}}, "the mesh a=-2 x b=-2 has the size -2: a size must be at least 1, or -1 for all remaining ranks");
  expect_refusal(4, {{"a", -1}, {"b", 2}, {"c", -1}}, "the mesh a=-1 x b=2 x c=-1 leaves two sizes open; only one can be inferred");
}

TEST(MeshShape, RefusesSizesThatDoNotMultiplyToTheRanks) {
  expect_refusal(4, {{"a", 2}, {"b", 3}}, "the mesh a=2 x b=3 needs 6 ranks, but there are 4");
  expect_refusal(8, {{"a", 2}, {"b", 2}}, "the mesh a=2 x b=2 needs 4 ranks, but there are 8");
  expect_refusal(8, {{"a", 3}, {"b", -1}}, "the mesh a=3 x b=-1 does not fit 8 ranks: 3 does not divide 8");
  expect_refusal(2, {{"a", 4}, {"b", -1}}, "the mesh a=4 x b=-1 does not fit 2 ranks: 4 does not divide 2");
}

TEST(MeshShape, RefusesSizesBeyondAllIntegers) {
  const int large = 1 << 16;  // four of them multiply to 2^64, which is 0 in 64 bits
  expect_refusal(4, {{"a", large}, {"b", large}, {"c", large}, {"d", large}, {"e", -1}},
                 "the mesh a=65536 x b=65536 x c=65536 x d=65536 x e=-1 does not fit 4 ranks: 9223372036854775807 does not divide 4");
  expect_refusal(4, {{"a", large}, {"b", large}, {"c", large}, {"d", large}, {"e", 4}},
                 "the mesh a=65536 x b=65536 x c=65536 x d=65536 x e=4 needs 9223372036854775807 ranks, but there are 4");
}

TEST(MeshShape, RefusesRanksAndCoordinatesThatItDoesNotHave) {
  const MeshShape shape(6, {{"a", 2}, {"b", 3}});
  const auto expect = [](const std::function<void()>& call, const std::string& message) {
    const std::string text = message_of(call);
    EXPECT_NE(text.find(message + " ["), std::string::npos) << text;
  };
  expect([&] { shape.coordinates_of(6); }, "the mesh a=2 x b=3 has no rank 6");
  expect([&] { shape.coordinates_of(-1); }, "the mesh a=2 x b=3 has no rank -1");
  expect([&] { shape.group_of(6, {"a"}); }, "the mesh a=2 x b=3 has no rank 6");
  expect([&] { shape.rank_at({1}); }, "the mesh a=2 x b=3 needs 2 coordinates, got 1");
  expect([&] { shape.rank_at({1, 2, 0}); }, "the mesh a=2 x b=3 needs 2 coordinates, got 3");
  expect([&] { shape.rank_at({2, 0}); }, "the mesh a=2 x b=3 has no coordinate 2 on axis 'a'");
  expect([&] { shape.rank_at({0, 3}); }, "the mesh a=2 x b=3 has no coordinate 3 on axis 'b'");
  expect([&] { shape.rank_at({0, -1}); }, "the mesh a=2 x b=3 has no coordinate -1 on axis 'b'");
}

}  // namespace mesh_test
