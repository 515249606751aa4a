// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/data/distributed_sampler.hpp>

namespace {

std::vector<size_t> drain(tw::DistributedSampler& sampler, size_t batch) {
  std::vector<size_t> all;
  while (const auto indices = sampler.next(batch)) {
    EXPECT_LE(indices->size(), batch);
    all.insert(all.end(), indices->begin(), indices->end());
  }
  EXPECT_EQ(all.size(), sampler.samples_here());
  return all;
}

TEST(DistributedSampler, DealsEverySampleOnceForAllSizesAndRanks) {
  for (size_t samples = 0; samples <= 50; ++samples) {
    for (int size = 1; size <= 12; ++size) {
      for (const bool shuffle : {false, true}) {
        std::vector<size_t> dealt;
        size_t least = samples;
        size_t most = 0;
        for (int rank = 0; rank < size; ++rank) {
          tw::DistributedSampler sampler(samples, size, rank, {.shuffle = shuffle, .seed = 3});
          sampler.set_epoch(2);
          const auto mine = drain(sampler, 1 + samples % 7);
          dealt.insert(dealt.end(), mine.begin(), mine.end());
          least = std::min(least, mine.size());
          most = std::max(most, mine.size());
        }
        std::sort(dealt.begin(), dealt.end());
        ASSERT_EQ(dealt.size(), samples);
        for (size_t i = 0; i < samples; ++i) ASSERT_EQ(dealt[i], i);
        EXPECT_LE(most - least, 1U);
      }
    }
  }
}

TEST(DistributedSampler, TheGlobalOrderDoesNotDependOnTheNumberOfRanks) {
  tw::DistributedSampler alone(20, 1, 0, {.seed = 9});
  alone.set_epoch(4);
  const auto order = drain(alone, 20);
  for (int rank = 0; rank < 3; ++rank) {
    tw::DistributedSampler sampler(20, 3, rank, {.seed = 9});
    sampler.set_epoch(4);
    const auto mine = drain(sampler, 2);
    for (size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i], order[i * 3 + static_cast<size_t>(rank)]);
  }
}

TEST(DistributedSampler, ShufflesAnewEveryEpochAndRepeatsWithTheSeed) {
  tw::DistributedSampler sampler(100, 2, 0, {.seed = 1});
  sampler.reset();
  const auto first = drain(sampler, 10);
  sampler.reset();
  const auto second = drain(sampler, 10);
  EXPECT_NE(first, second);
  sampler.set_epoch(0);
  EXPECT_EQ(drain(sampler, 10), first);
  sampler.reset(10);
  EXPECT_EQ(drain(sampler, 10).size(), 5U);
}

TEST(DistributedSampler, CountsTheBatchesOfTheFullestRank) {
  EXPECT_EQ(tw::DistributedSampler(100, 3, 2).batches(10), 4U);  // rank 0 has 34
  EXPECT_EQ(tw::DistributedSampler(2, 4, 3).batches(64), 1U);
  EXPECT_EQ(tw::DistributedSampler(0, 4, 3).batches(64), 0U);
}

TEST(DistributedSampler, NamesMisuse) {
  EXPECT_THROW(tw::DistributedSampler(10, 0, 0), tw::ContractError);
  EXPECT_THROW(tw::DistributedSampler(10, 2, 2), tw::ContractError);
  tw::DistributedSampler sampler(10, 2, 0);
  EXPECT_THROW((void)sampler.next(4), tw::ContractError);  // no epoch begun
  sampler.reset();
  EXPECT_THROW((void)sampler.next(0), tw::ContractError);
}

}  // namespace
