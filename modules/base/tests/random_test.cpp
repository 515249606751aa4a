// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <tw/base.hpp>

namespace random_test {

TEST(CounterRng, EqualsThePublishedPhiloxVector) {
  // Random123's known answers: philox4x32-10, counter 0 and key 0.
  tw::CounterRng random(0, 0);
  EXPECT_EQ(random(), 0x6627e8d5U);
  EXPECT_EQ(random(), 0xe169c58dU);
  EXPECT_EQ(random(), 0xbc57ac4cU);
  EXPECT_EQ(random(), 0x9b00dbd8U);
}

TEST(CounterRng, StreamsAndSeedsDiffer) {
  EXPECT_NE(tw::CounterRng(1, 0)(), tw::CounterRng(2, 0)());
  EXPECT_NE(tw::CounterRng(1, 0)(), tw::CounterRng(1, 1)());
}

/// The exclusive or of both, shifted, would map (0, 1 << 20) and (1 << 20, 0) to the same seed.
TEST(DerivedSeed, DiffersWhereTheBitsOfBothOverlap) {
  const std::array<uint64_t, 6> numbers{0, 1, uint64_t{1} << 20, uint64_t{3} << 20, uint64_t{1} << 32, uint64_t{1} << 56};
  std::set<uint64_t> seeds;
  for (const uint64_t seed : numbers) {
    for (const uint64_t stream : numbers) seeds.insert(tw::derived_seed(seed, stream));
  }
  EXPECT_EQ(seeds.size(), numbers.size() * numbers.size());
}

TEST(CounterRng, BelowIsUniform) {
  tw::CounterRng random(3);
  std::array<int, 10> counts{};
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) ++counts[random.below(10)];
  // Binomial with mean 10^4 and standard deviation 95: six standard deviations.
  for (const int count : counts) EXPECT_NEAR(count, draws / 10, 6 * 95);
}

TEST(RandomPermutation, IsAPermutationAndRepeats) {
  for (const int64_t n : {0, 1, 2, 17, 1000}) {
    auto order = tw::random_permutation(n, 5, 9);
    EXPECT_EQ(order, tw::random_permutation(n, 5, 9));
    if (n > 2) {
      EXPECT_NE(order, tw::random_permutation(n, 5, 10));
    }
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_THROW(tw::random_permutation(-1, 0, 0), tw::ContractError);
}

}  // namespace random_test
