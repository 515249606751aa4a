// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tw/base/error.hpp>
#include <tw/base/random.hpp>
#include <tw/evolution/hypervolume.hpp>

namespace tw::search {
namespace hypervolume_test {

using Points = std::vector<std::vector<double>>;

std::vector<ObjectiveView> views(const Points& points) { return {points.begin(), points.end()}; }

Points random_points(size_t n, size_t objectives, uint32_t values, CounterRng& random) {
  Points points(n, std::vector<double>(objectives));
  for (std::vector<double>& point : points) {
    for (double& each : point) each = random.below(values);
  }
  return points;
}

/// The number of unit cells from 0 to `side` in each objective that a point dominates: exact for whole numbers.
double cells(const Points& points, size_t objectives, uint32_t side) {
  std::vector<double> corner(objectives, 0);
  double count = 0;
  while (true) {
    const auto covers = [&](const std::vector<double>& point) { return std::ranges::equal(point, corner, std::less_equal()); };
    count += std::ranges::any_of(points, covers) ? 1 : 0;
    size_t i = 0;
    while (i < objectives && ++corner[i] == side) corner[i++] = 0;
    if (i == objectives) return count;
  }
}

/// Sums of products of whole numbers below 2^53 are exact.
TEST(Hypervolume, IsTheNumberOfCells) {
  CounterRng random(1);
  for (const size_t objectives : {1, 2, 3, 4, 5}) {
    constexpr uint32_t side = 7;
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Points points = random_points(1 + random.below(15), objectives, side + 2, random);  // some beyond the reference
      const std::vector<double> reference(objectives, side);
      const double expected = cells(points, objectives, side);
      ASSERT_EQ(hypervolume(views(points), reference), expected) << objectives << " objectives";
      const Points others(points.begin() + 1, points.end());
      ASSERT_EQ(exclusive_hypervolume(points[0], views(others), reference), expected - cells(others, objectives, side));
    }
  }
}

/// n points on a simplex in three objectives: the volume is a sum of n slices.
TEST(Hypervolume, OfALargeFrontIsASumOfSlices) {
  CounterRng random(2);
  Points points;
  for (int i = 0; i < 150; ++i) {
    const double a = random.below(1000), b = random.below(1000);
    points.push_back({a, b, 3000 - a - b});
  }
  // Between two adjacent values of the third objective, the area of the points below is constant.
  std::vector<double> thirds;
  for (const auto& each : points) thirds.push_back(each[2]);
  std::ranges::sort(thirds);
  thirds.push_back(4000);
  double expected = 0;
  for (size_t k = 0; k + 1 < thirds.size(); ++k) {
    Points below;
    for (const auto& each : points) {
      if (each[2] <= thirds[k]) below.push_back({each[0], each[1]});
    }
    expected += (thirds[k + 1] - thirds[k]) * hypervolume(views(below), std::vector{1000.0, 1000.0});
  }
  EXPECT_EQ(hypervolume(views(points), std::vector{1000.0, 1000.0, 4000.0}), expected);
}

TEST(Hypervolume, OfNothingIsNothing) {
  EXPECT_EQ(hypervolume({}, std::vector{1.0, 1.0}), 0);
  const Points at_the_border{{1, 0}, {2, -1}};
  EXPECT_EQ(hypervolume(views(at_the_border), std::vector{1.0, 1.0}), 0);
  EXPECT_THROW(hypervolume(views(at_the_border), std::vector{1.0}), ContractError);
  EXPECT_THROW(hypervolume({}, {}), ContractError);
}

}  // namespace hypervolume_test
}  // namespace tw::search
