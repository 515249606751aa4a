// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tw/base/error.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/sampling.hpp>

namespace tw::search {
namespace sampling_test {

Space mixed() {
  return {real("lr", 1e-4, 1e-1, log_scale), integer("layers", 1, 4), ordinal("batch", {16, 32, 64, 128}), categorical("optimizer", {"sgd", "adam"}),
          real("momentum", 0, 1).when("optimizer", {"sgd"})};
}

/// The first proposals.
std::vector<std::vector<double>> drawn(Propagator& propagator, int n, uint64_t seed = 1) {
  const Population population;
  std::vector<std::vector<double>> points;
  for (int i = 0; i < n; ++i) {
    CounterRng random(seed, static_cast<uint64_t>(i));
    points.push_back(propagator.ask(population, random).values);
  }
  return points;
}

/// Counts of the points [begin, begin + n) in n equal strata of a real parameter's unit interval.
std::vector<int> strata(const Space& space, const std::vector<std::vector<double>>& points, size_t parameter, size_t begin, size_t n) {
  std::vector<int> counts(n, 0);
  for (size_t i = begin; i < begin + n; ++i) {
    ++counts[static_cast<size_t>(std::floor(space.to_unit(parameter, points[i][parameter]) * static_cast<double>(n)))];
  }
  return counts;
}

TEST(Sampling, UniformIsUniformInEachParametersScale) {
  // 16 bins, or 4 or 2, of 16,000 draws. P(chi2 - k >= 2 sqrt(k x) + 2 x) <= exp(-x) with k degrees of freedom (Laurent & Massart 2000), x = 14.
  const Space space = mixed();
  Breeder sampling(space, uniform_child());
  const auto points = drawn(sampling, 16000);
  for (size_t i = 0; i < space.size(); ++i) {
    const auto bins = static_cast<size_t>(space.parameters()[i].count() > 0 ? space.parameters()[i].count() : 16);
    std::vector<double> counts(bins, 0);
    double total = 0;
    for (const auto& point : points) {
      ASSERT_TRUE(space.contains(point));
      if (std::isnan(point[i])) continue;
      ++counts[static_cast<size_t>(space.to_unit(i, point[i]) * static_cast<double>(bins))];
      ++total;
    }
    const double expected = total / static_cast<double>(bins);
    double chi_square = 0;
    for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
    const auto k = static_cast<double>(bins - 1);
    EXPECT_LT(chi_square, k + 2 * std::sqrt(k * 14) + 28) << space.parameters()[i].name;
  }
}

TEST(Sampling, WhatDoesNotExistIsNotDrawn) {
  const Space space = mixed();
  Breeder uniform_sampling(space, uniform_child());
  Sobol sobol(space, 1);
  for (Propagator* each : std::initializer_list<Propagator*>{&uniform_sampling, &sobol}) {
    int existing = 0;
    for (const auto& point : drawn(*each, 100)) {
      ASSERT_TRUE(space.contains(point));
      ASSERT_EQ(std::isnan(point[4]), point[3] != 0);
      existing += point[3] == 0 ? 1 : 0;
    }
    EXPECT_GT(existing, 20);
    EXPECT_LT(existing, 80);
  }
}

TEST(Sampling, SobolCoversEachParameterInEveryPowerOfTwo) {
  const Space space{real("a", 0, 1), real("b", 1e-3, 1, log_scale), real("c", -5, 5)};
  Sobol sobol(space, 7);
  const auto points = drawn(sobol, 128);
  for (size_t parameter = 0; parameter < 3; ++parameter) {
    for (const size_t n : {2U, 16U, 64U, 128U}) EXPECT_EQ(strata(space, points, parameter, 0, n), std::vector<int>(n, 1));
    EXPECT_EQ(strata(space, points, parameter, 64, 64), std::vector<int>(64, 1));
  }
}

/// Of 70 parameters, the last 6 exceed the dimensions of the sequence. P(chi2 - k >= 2 sqrt(k x) + 2 x) <= exp(-x) (Laurent & Massart 2000), x = 14,
/// k = 15.
TEST(Sampling, ParametersBeyondTheSequenceAreUniform) {
  std::vector<Parameter> many;
  for (int i = 0; i < 70; ++i) many.push_back(real("x" + std::to_string(i), 0, 1));
  const Space space(many);
  Sobol sobol(space, 3);
  const auto points = drawn(sobol, 1024);
  for (size_t parameter = 0; parameter < 64; ++parameter) EXPECT_EQ(strata(space, points, parameter, 0, 64), std::vector<int>(64, 1)) << parameter;
  for (size_t parameter = 64; parameter < 70; ++parameter) {
    std::vector<double> counts(16, 0);
    double product = 0;
    for (const auto& point : points) {
      ++counts[static_cast<size_t>(16 * point[parameter])];
      product += (point[parameter] - 0.5) * (point[parameter - 1] - 0.5);
    }
    double chi_square = 0;
    for (const double count : counts) chi_square += (count - 64) * (count - 64) / 64;
    EXPECT_LT(chi_square, 15 + 2 * std::sqrt(15.0 * 14) + 28) << parameter;
    EXPECT_LT(std::abs(product / 1024 * 12), 6.0 / 32) << parameter;  // the correlation of 1,024 pairs has deviation 1/32
  }
}

TEST(Sampling, WorkersShareThePointsOfOne) {
  const Space space = mixed();
  Sobol whole(space, 9);
  const auto alone = drawn(whole, 60);
  for (int worker = 0; worker < 3; ++worker) {
    Sobol part(space, 9, {worker, 3});
    const auto own = drawn(part, 20, static_cast<uint64_t>(worker) + 100);  // trial numbers have no influence
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(same_values(own[i], alone[3 * i + static_cast<size_t>(worker)]));
  }
}

TEST(Sampling, SeedsGiveOtherPoints) {
  const Space space{real("a", 0, 1)};
  std::set<double> first;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Sobol sobol(space, seed);
    first.insert(drawn(sobol, 1)[0][0]);
  }
  EXPECT_EQ(first.size(), 20U);
}

TEST(Sampling, RefusesWrongNumbers) {
  const Space space{real("a", 0, 1)};
  EXPECT_THROW(Sobol(space, 1, {-1, 2}), ContractError);
  EXPECT_THROW(Sobol(space, 1, {0, 0}), ContractError);
  EXPECT_THROW(Sobol(space, 1, {2, 2}), ContractError);
}

}  // namespace sampling_test
}  // namespace tw::search
