// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <tw/base/random.hpp>
#include <vector>

#include "quota.hpp"

namespace tw::search {
namespace quota_test {

/// Workers of different speed, with evaluations of their own, messages that take their time: exactly this many evaluations are begun, each worker
/// begins its own, every worker comes to an end, and a slow one does not keep its share.
TEST(Quota, IsUsedUpExactly) {
  struct Letter {
    int64_t arrives;
    int from, to;
    int64_t given;  // -1: a question
  };
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CounterRng random(seed);
    const int workers = 1 + static_cast<int>(random.below(8));
    const int64_t total = random.below(300);
    std::vector<Quota> quotas;
    std::vector<int64_t> free_at;
    std::vector<int64_t> speed;
    std::vector<int64_t> own;
    std::vector<int64_t> begun_by(static_cast<size_t>(workers), 0);
    std::vector<bool> over(static_cast<size_t>(workers), false);
    for (int w = 0; w < workers; ++w) {
      own.push_back(random.below(4));
      quotas.emplace_back(total, w, workers, own.back());
      free_at.push_back(0);
      speed.push_back(1 + random.below(50));
    }
    std::vector<int64_t> own_left = own;
    std::deque<Letter> letters;
    int64_t last_begin = 0;
    for (int64_t now = 0; std::count(over.begin(), over.end(), false) > 0; ++now) {
      ASSERT_LT(now, 1000000) << "somebody never ends";
      for (int w = 0; w < workers; ++w) {
        if (free_at[static_cast<size_t>(w)] > now) continue;  // evaluates, and hears nothing
        Quota& quota = quotas[static_cast<size_t>(w)];
        for (size_t i = 0; i < letters.size();) {
          const Letter letter = letters[i];
          if (letter.to != w || letter.arrives > now) {
            ++i;
            continue;
          }
          letters.erase(letters.begin() + static_cast<int64_t>(i));
          if (letter.given >= 0) {
            quota.answer(letter.given);
          } else {
            letters.push_back({now + 1 + random.below(5), w, letter.from, quota.give()});
          }
        }
        if (over[static_cast<size_t>(w)]) continue;
        // Own ones may have to wait.
        const bool takes_own = own_left[static_cast<size_t>(w)] > 0 && random.below(2) == 0;
        if (takes_own) {
          quota.take_own();
          --own_left[static_cast<size_t>(w)];
        }
        if (takes_own || quota.take()) {
          ++begun_by[static_cast<size_t>(w)];
          last_begin = now;
          free_at[static_cast<size_t>(w)] = now + speed[static_cast<size_t>(w)];
        }
        if (const auto whom = quota.ask()) {
          ASSERT_NE(*whom, w);
          letters.push_back({now + 1 + random.below(5), w, *whom, -1});
        }
        if (quota.is_over()) over[static_cast<size_t>(w)] = true;
      }
    }
    const int64_t begun = std::accumulate(begun_by.begin(), begun_by.end(), int64_t{0});
    ASSERT_EQ(begun, total + std::accumulate(own.begin(), own.end(), int64_t{0})) << "seed " << seed;
    for (size_t w = 0; w < own.size(); ++w) ASSERT_GE(begun_by[w], own[w]) << "seed " << seed;
    // Against the time in which all together could have done it, a worker may lose its own ones, 3 at most, and a round of questions, each of which
    // is answered when an evaluation ends. Without giving half of the cases take longer.
    double rate = 0;
    for (const int64_t each : speed) rate += 1 / static_cast<double>(each);
    const auto slowest = static_cast<double>(*std::max_element(speed.begin(), speed.end()));
    EXPECT_LT(static_cast<double>(last_begin), static_cast<double>(begun) / rate + (workers + 3) * slowest);
  }
}

TEST(Quota, AsksOneAhead) {
  Quota quota(6, 0, 3);
  EXPECT_TRUE(quota.take());
  EXPECT_EQ(quota.ask(), 1);
  EXPECT_EQ(quota.ask(), std::nullopt) << "not twice";
  quota.answer(0);
  EXPECT_EQ(quota.ask(), 2);
  quota.answer(4);
  EXPECT_EQ(quota.left(), 5);
  EXPECT_EQ(quota.ask(), std::nullopt);
  EXPECT_EQ(quota.give(), 2);
  EXPECT_FALSE(quota.is_over());
}

}  // namespace quota_test
}  // namespace tw::search
