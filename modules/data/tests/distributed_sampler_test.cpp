// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/data/distributed_sampler.hpp>

namespace distributed_sampler_test {

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

// Otherwise a rank would leave its loop while the others wait for its gradients.
TEST(DistributedSampler, GivesAllRanksEquallyManyBatches) {
  for (const auto partitioning : {tw::Partitioning::interleaved, tw::Partitioning::blocks}) {
    for (int size = 1; size <= 6; ++size) {
      for (size_t samples = static_cast<size_t>(size); samples <= 80; ++samples) {
        for (size_t batch = 2; batch <= 9; ++batch) {
          for (int rank = 0; rank < size; ++rank) {
            tw::DistributedSampler sampler(samples, size, rank, {.partitioning = partitioning});
            sampler.reset();
            size_t batches = 0;
            while (sampler.next(batch)) ++batches;
            EXPECT_EQ(batches, sampler.batches(batch)) << samples << " samples, rank " << rank << " of " << size << ", batches of " << batch;
          }
        }
      }
    }
  }
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

struct Settings {
  int64_t samples = 0;
  int size = 1;
  int64_t global_batch = 1;
  tw::SamplerOptions options;
};

std::vector<tw::DistributedSampler> make_ranks(const Settings& of) {
  std::vector<tw::DistributedSampler> ranks;
  for (int rank = 0; rank < of.size; ++rank) ranks.emplace_back(static_cast<size_t>(of.samples), of.size, rank, of.options);
  return ranks;
}

std::vector<int64_t> epoch_order(const Settings& of, int64_t epoch) {
  if (of.options.shuffle) return tw::random_permutation(of.samples, of.options.seed, static_cast<uint64_t>(epoch));
  std::vector<int64_t> order(static_cast<size_t>(of.samples));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

// Number of samples of the order that an epoch deals.
int64_t expected_end(const Settings& of) {
  if (of.options.uneven == tw::Uneven::drop) return of.samples / of.size * of.size;
  if (of.options.uneven == tw::Uneven::pad) return (of.samples + of.size - 1) / of.size * of.size;
  return of.samples;
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

// One step on every rank. @return all samples dealt. Checks that shares differ by at most one, and that ranks agree on their position.
std::vector<int64_t> deal(std::vector<tw::DistributedSampler>& ranks, int64_t global_batch, std::vector<size_t>& counts) {
  std::vector<int64_t> dealt;
  size_t least = SIZE_MAX;
  size_t most = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto share = ranks[rank].next_share(global_batch);
    dealt.insert(dealt.end(), share.begin(), share.end());
    counts[rank] += share.size();
    least = std::min(least, share.size());
    most = std::max(most, share.size());
    EXPECT_EQ(ranks[rank].consumed(), ranks[0].consumed());
  }
  EXPECT_LE(most - least, 1U);
  return dealt;
}

void check_epoch(const Settings& of) {
  auto ranks = make_ranks(of);
  for (auto& rank : ranks) rank.set_epoch(1);
  const auto order = epoch_order(of, 1);
  std::vector<int64_t> dealt;
  std::vector<size_t> counts(ranks.size());
  int64_t steps = 0;
  const int64_t end = expected_end(of);
  while (!ranks[0].epoch_done()) {
    ASSERT_EQ(ranks[0].steps_left(of.global_batch), ranks[0].steps(of.global_batch) - steps);
    const auto step = deal(ranks, of.global_batch, counts);
    ++steps;
    ASSERT_EQ(static_cast<int64_t>(step.size()), std::min(of.global_batch, end - static_cast<int64_t>(dealt.size())));
    dealt.insert(dealt.end(), step.begin(), step.end());
  }
  for (auto& rank : ranks) {
    ASSERT_EQ(rank.steps(of.global_batch), steps);
    ASSERT_EQ(rank.steps_left(of.global_batch), 0);
    ASSERT_TRUE(rank.next_share(of.global_batch).empty());
  }
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < end; ++i) expected.push_back(order[static_cast<size_t>(i % of.samples)]);
  ASSERT_EQ(sorted(dealt), sorted(expected));
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  ASSERT_LE(*most - *least, of.options.uneven == tw::Uneven::exact ? 1U : 0U);
}

TEST(DistributedSampler, DealsTheEpochInStepInEveryMode) {
  for (const auto partitioning : {tw::Partitioning::interleaved, tw::Partitioning::blocks}) {
    for (const auto uneven : {tw::Uneven::exact, tw::Uneven::drop, tw::Uneven::pad}) {
      for (int64_t samples = 0; samples <= 50; ++samples) {
        for (int size = 1; size <= 50; ++size) {
          for (int64_t global_batch = 1; global_batch <= 50; ++global_batch) {
            if (uneven != tw::Uneven::exact && global_batch % size != 0) continue;
            const tw::SamplerOptions options{.shuffle = (samples + size) % 2 == 0, .seed = 5, .uneven = uneven, .partitioning = partitioning};
            check_epoch({samples, size, global_batch, options});
            if (HasFatalFailure())
              FAIL() << samples << " samples, " << size << " ranks, batch " << global_batch << ", mode " << static_cast<int>(uneven);
          }
        }
      }
    }
  }
}

TEST(DistributedSampler, BlocksAreContiguousAndInTheOrdersOrder) {
  for (const int64_t global_batch : {1, 3, 4, 7}) {
    auto ranks = make_ranks({10, 3, global_batch, {.shuffle = false, .partitioning = tw::Partitioning::blocks}});
    std::vector<std::vector<int64_t>> blocks;
    for (auto& rank : ranks) {
      rank.set_epoch(0);
      auto& block = blocks.emplace_back();
      while (!rank.epoch_done()) {
        const auto share = rank.next_share(global_batch);
        block.insert(block.end(), share.begin(), share.end());
      }
    }
    EXPECT_EQ(blocks, (std::vector<std::vector<int64_t>>{{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}}));
  }
}

// Begins an epoch with `of` and, after `consumed` samples, resumes it with `size` ranks.
void check_resume(const Settings& of, int64_t consumed, int size) {
  Settings after = of;
  after.size = size;
  after.global_batch = of.options.uneven == tw::Uneven::exact ? of.global_batch : 2 * size;
  auto ranks = make_ranks(after);
  for (auto& rank : ranks) rank.resume(3, consumed, of.size);
  ASSERT_EQ(ranks[0].consumed(), consumed);
  std::vector<int64_t> dealt;
  std::vector<size_t> counts(ranks.size());
  while (!ranks[0].epoch_done()) {
    const int64_t position = ranks[0].consumed();
    const auto step = deal(ranks, after.global_batch, counts);
    ASSERT_EQ(static_cast<int64_t>(step.size()), ranks[0].consumed() - position);
    dealt.insert(dealt.end(), step.begin(), step.end());
  }
  const auto order = epoch_order(of, 3);
  const int64_t left = std::max<int64_t>(of.samples - consumed, 0);
  int64_t expected_count = left;
  if (of.options.uneven == tw::Uneven::drop) expected_count = left / size * size;
  if (of.options.uneven == tw::Uneven::pad) expected_count = (left + size - 1) / size * size;
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < expected_count; ++i) expected.push_back(order[static_cast<size_t>((consumed + i) % of.samples)]);
  ASSERT_EQ(sorted(dealt), sorted(expected));
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  ASSERT_LE(*most - *least, of.options.uneven == tw::Uneven::exact ? 1U : 0U);
}

TEST(DistributedSampler, ResumesAnywhereOnAnyNumberOfRanks) {
  for (const auto uneven : {tw::Uneven::exact, tw::Uneven::drop, tw::Uneven::pad}) {
    for (int64_t samples = 0; samples <= 50; samples += 5) {
      for (int before = 1; before <= 5; ++before) {
        const Settings of{samples, before, 4, {.seed = 8, .uneven = uneven}};
        const int64_t last = std::max(expected_end(of), samples);
        for (int64_t consumed = 0; consumed <= last; ++consumed) {
          for (int after = 1; after <= 7; ++after) {
            check_resume(of, consumed, after);
            if (HasFatalFailure()) FAIL() << samples << " samples, " << consumed << " consumed by " << before << " ranks, resumed by " << after;
          }
        }
      }
    }
  }
}

TEST(DistributedSampler, ContinuesAsIfNothingHadHappenedOnTheSameRanks) {
  for (const auto partitioning : {tw::Partitioning::interleaved, tw::Partitioning::blocks}) {
    for (const auto uneven : {tw::Uneven::exact, tw::Uneven::drop, tw::Uneven::pad}) {
      const Settings of{47, 3, 6, {.seed = 8, .uneven = uneven, .partitioning = partitioning}};
      for (int stop = 0; stop <= 8; ++stop) {
        auto undisturbed = make_ranks(of);
        auto resumed = make_ranks(of);
        for (size_t rank = 0; rank < 3; ++rank) {
          undisturbed[rank].set_epoch(2);
          for (int step = 0; step < stop; ++step) (void)undisturbed[rank].next_share(6);
          resumed[rank].resume(2, undisturbed[rank].consumed(), 3);
          for (int step = stop; step < 10; ++step) ASSERT_EQ(resumed[rank].next_share(6), undisturbed[rank].next_share(6));
        }
      }
    }
  }
}

TEST(DistributedSampler, PaddingMayGoRoundMoreThanOnce) {
  std::vector<int64_t> dealt;
  std::vector<size_t> counts(7);
  auto ranks = make_ranks({3, 7, 7, {.shuffle = false, .uneven = tw::Uneven::pad}});
  for (auto& rank : ranks) rank.set_epoch(0);
  EXPECT_EQ(deal(ranks, 7, counts), (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(DistributedSampler, SaysWhyItCannotResume) {
  tw::DistributedSampler blocks(10, 2, 0, {.partitioning = tw::Partitioning::blocks});
  try {
    blocks.resume(0, 4, 3);
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("on 3 ranks cannot be resumed on 2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(blocks.resume(0, 4), tw::ContractError);
  EXPECT_NO_THROW(blocks.resume(0, 4, 2));
  EXPECT_NO_THROW(blocks.resume(0, 0));
  tw::DistributedSampler sampler(10, 2, 0);
  EXPECT_THROW(sampler.resume(0, 11), tw::ContractError);
  EXPECT_THROW(sampler.resume(0, -1), tw::ContractError);
  EXPECT_THROW(sampler.resume(-1, 0), tw::ContractError);
  tw::DistributedSampler padded(10, 4, 0, {.uneven = tw::Uneven::pad});
  padded.resume(0, 12);
  EXPECT_TRUE(padded.epoch_done());
  EXPECT_THROW((void)padded.next_share(6), tw::ContractError);  // not a multiple of 4
}

}  // namespace distributed_sampler_test
