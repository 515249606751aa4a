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

/// What it proposes first.
std::vector<std::vector<double>> drawn(Propagator& propagator, int n, uint64_t seed = 1) {
  const Population population;
  std::vector<std::vector<double>> points;
  for (int i = 0; i < n; ++i) {
    CounterRng random(seed, static_cast<uint64_t>(i));
    points.push_back(propagator.ask(population, random).values);
  }
  return points;
}

/// Counts of the points [begin, begin + n) in n equal strata of a real parameter's unit.
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
  LatinHypercube hypercube(space, 50, 1);
  Sobol sobol(space, 1);
  for (Propagator* each : std::initializer_list<Propagator*>{&uniform_sampling, &hypercube, &sobol}) {
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

TEST(Sampling, AHypercubeHasOnePointInEachStratumAndThenAnotherOne) {
  const Space space{real("a", 0, 1), real("b", 1e-3, 1, log_scale), real("c", -5, 5)};
  for (const size_t n : {1U, 7U, 64U}) {
    LatinHypercube hypercube(space, static_cast<int64_t>(n), 3);
    const auto points = drawn(hypercube, static_cast<int>(3 * n));
    for (size_t parameter = 0; parameter < 3; ++parameter) {
      for (size_t cube = 0; cube < 3; ++cube) EXPECT_EQ(strata(space, points, parameter, cube * n, n), std::vector<int>(n, 1)) << n;
    }
  }
}

TEST(Sampling, EachHypercubeHasItsStrataInAnotherOrder) {
  const Space space{real("a", 0, 1)};
  LatinHypercube hypercube(space, 64, 3);
  const auto points = drawn(hypercube, 128);
  int same_stratum = 0;
  for (size_t i = 0; i < 64; ++i) same_stratum += std::floor(64 * points[i][0]) == std::floor(64 * points[64 + i][0]) ? 1 : 0;
  EXPECT_LT(same_stratum, 12);  // Poisson with mean 1: 12 or more with probability 1e-9
}

TEST(Sampling, AHypercubeIsTwoDimensional) {
  // Strata of two parameters go together at random: the correlation of 4,096 pairs has deviation 1/64.
  const Space space{real("a", 0, 1), real("b", 0, 1)};
  LatinHypercube hypercube(space, 4096, 5);
  double product = 0;
  for (const auto& point : drawn(hypercube, 4096)) product += (point[0] - 0.5) * (point[1] - 0.5);
  EXPECT_LT(std::abs(product / 4096 * 12), 6.0 / 64);
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

TEST(Sampling, WorkersShareThePointsOfOne) {
  const Space space = mixed();
  const auto make = [&](bool sobol, Share share) -> std::unique_ptr<Propagator> {
    if (sobol) return std::make_unique<Sobol>(space, 9, share);
    return std::make_unique<LatinHypercube>(space, 10, 9, share);
  };
  for (const bool sobol : {false, true}) {
    const auto alone = drawn(*make(sobol, {}), 60);
    for (int worker = 0; worker < 3; ++worker) {
      const auto own = drawn(*make(sobol, {worker, 3}), 20, static_cast<uint64_t>(worker) + 100);  // trials' numbers do not matter
      for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(same_values(own[i], alone[3 * i + static_cast<size_t>(worker)]));
    }
  }
}

TEST(Sampling, SeedsGiveOtherPoints) {
  const Space space{real("a", 0, 1)};
  std::set<double> first;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Sobol sobol(space, seed);
    LatinHypercube hypercube(space, 4, seed);
    first.insert(drawn(sobol, 1)[0][0]);
    first.insert(drawn(hypercube, 1)[0][0]);
  }
  EXPECT_EQ(first.size(), 40U);
}

TEST(Sampling, RefusesWrongNumbers) {
  const Space space{real("a", 0, 1)};
  EXPECT_THROW(LatinHypercube(space, 0, 1), ContractError);
  EXPECT_THROW(LatinHypercube(space, 4, 1, {2, 2}), ContractError);
  EXPECT_THROW(Sobol(space, 1, {-1, 2}), ContractError);
  EXPECT_THROW(Sobol(space, 1, {0, 0}), ContractError);
  std::vector<Parameter> many;
  for (int i = 0; i < 65; ++i) many.push_back(real("x" + std::to_string(i), 0, 1));
  EXPECT_THROW(Sobol(Space(many), 1), ContractError);
}

}  // namespace sampling_test
}  // namespace tw::search
