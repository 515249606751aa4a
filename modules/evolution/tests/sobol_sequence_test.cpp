// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <tw/base/error.hpp>
#include <tw/base/hash.hpp>
#include <tw/evolution/sobol_sequence.hpp>

namespace tw::search {
namespace sobol_sequence_test {

using Points = std::vector<std::vector<uint32_t>>;  // by dimension

Points first_points(size_t dimensions, uint32_t n) {
  const SobolSequence sequence(dimensions);
  Points points(dimensions);
  for (size_t d = 0; d < dimensions; ++d) {
    for (uint32_t i = 0; i < n; ++i) points[d].push_back(sequence.at(d, i));
  }
  return points;
}

/// Whether each box of 2^-a by 2^-b, a + b = m - t, contains 2^t of the 2^m points: a (t, m, 2)-net in base 2.
bool is_net(const std::vector<uint32_t>& x, const std::vector<uint32_t>& y, uint32_t m, uint32_t t) {
  for (uint32_t a = 0; a <= m - t; ++a) {
    std::vector<uint32_t> counts(size_t{1} << (m - t), 0);
    for (size_t i = 0; i < size_t{1} << m; ++i) {
      const uint64_t column = uint64_t{x[i]} << a >> 32;
      const uint64_t row = uint64_t{y[i]} << (m - t - a) >> 32;
      ++counts[column << (m - t - a) | row];
    }
    if (std::ranges::any_of(counts, [&](uint32_t count) { return count != 1U << t; })) return false;
  }
  return true;
}

/// Checks that every pair of dimensions is as even as Sobol' 1967 proves: t = sum over both of (degree of the polynomial - 1), 0 for the first
/// dimension.
void expect_nets(const Points& points) {
  const std::vector<uint32_t> degrees{1, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5, 6, 6, 6};
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      const uint32_t t = degrees[i] + degrees[k] - 2;
      for (uint32_t m = t; m <= 11; ++m) ASSERT_TRUE(is_net(points[i], points[k], m, t)) << "dimensions " << i << " and " << k << ", m = " << m;
    }
  }
}

TEST(SobolSequence, BeginsAsJoeAndKuoPublish) {
  // The 10 points in 3 dimensions of https://web.maths.unsw.edu.au/~fkuo/sobol, in sixteenths.
  const std::vector<std::vector<uint32_t>> published{{0, 0, 0},   {8, 8, 8},   {12, 4, 4}, {4, 12, 12}, {6, 6, 10},
                                                     {14, 14, 2}, {10, 2, 14}, {2, 10, 6}, {3, 5, 15},  {11, 13, 7}};
  const SobolSequence sequence(3);
  for (uint32_t i = 0; i < published.size(); ++i) {
    for (size_t d = 0; d < 3; ++d) EXPECT_EQ(sequence.at(d, i), published[i][d] << 28) << "point " << i << ", dimension " << d;
  }
}

TEST(SobolSequence, AgreesWithAnotherImplementation) {
  // torch.quasirandom.SobolEngine 2.13, in units of 2^-30.
  struct Row {
    uint32_t index;
    std::vector<uint32_t> at;  // dimensions 1, 10, 20, 40, 64
  };
  const std::vector<Row> rows{{1, {536870912, 536870912, 536870912, 536870912, 536870912}},
                              {12345, {688193536, 461307904, 368771072, 1018101760, 499974144}},
                              {1000003, {296862720, 4725760, 678919168, 280685568, 330843136}}};
  const SobolSequence sequence(64);
  for (const Row& row : rows) {
    const std::vector<size_t> dimensions{0, 9, 19, 39, 63};
    for (size_t k = 0; k < dimensions.size(); ++k)
      EXPECT_EQ(sequence.at(dimensions[k], row.index) >> 2, row.at[k]) << row.index << ' ' << dimensions[k];
  }
}

TEST(SobolSequence, TheWholeTableAgreesWithAnotherImplementation) {
  std::vector<uint32_t> all;
  for (const std::vector<uint32_t>& points : first_points(64, 1024)) {
    for (const uint32_t x : points) all.push_back(x >> 2);
  }
  // A hash of the same engine's points.
  EXPECT_EQ(content_hash({reinterpret_cast<const char*>(all.data()), all.size() * sizeof all[0]}), 0xb4b32a2e6542c5a3U);
}

TEST(SobolSequence, EveryDimensionHasOnePointInEveryInterval) {
  for (const std::vector<uint32_t>& points : first_points(64, 256)) {
    std::vector<int> counts(256, 0);
    for (const uint32_t x : points) ++counts[x >> 24];
    EXPECT_EQ(std::ranges::count(counts, 1), 256);
  }
}

TEST(SobolSequence, PairsOfDimensionsAreNets) { expect_nets(first_points(16, 1 << 11)); }

TEST(SobolSequence, ScramblingKeepsTheNetsAndMovesThePoints) {
  Points points = first_points(8, 1 << 11);
  const Points plain = points;
  for (size_t d = 0; d < points.size(); ++d) {
    for (uint32_t& x : points[d]) x = owen_scrambled(x, 0x9e3779b9U * static_cast<uint32_t>(d + 1));
    EXPECT_NE(points[d], plain[d]);
  }
  expect_nets(points);
}

TEST(SobolSequence, ScrambledPlacesAreUniformOverSeeds) {
  // 4096 seeds, 16 bins. P(chi2 - k >= 2 sqrt(k x) + 2 x) <= exp(-x) with k = 15 degrees of freedom (Laurent & Massart 2000): 72 is exceeded with
  // probability 1e-6.
  for (const uint32_t x : {0U, 0x80000000U, 0x12345678U}) {
    std::vector<int> counts(16, 0);
    for (uint32_t seed = 0; seed < 4096; ++seed) ++counts[owen_scrambled(x, seed * 0x9e3779b9U + 12345) >> 28];
    double chi_square = 0;
    for (const int count : counts) chi_square += (count - 256.0) * (count - 256.0) / 256.0;
    EXPECT_LT(chi_square, 72) << x;
  }
}

TEST(SobolSequence, RefusesWhatItHasNoNumbersFor) {
  EXPECT_THROW(SobolSequence(0), ContractError);
  EXPECT_THROW(SobolSequence(65), ContractError);
}

}  // namespace sobol_sequence_test
}  // namespace tw::search
