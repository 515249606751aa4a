// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tw/base/contract.hpp>

#include "layout.hpp"
#include "migration.hpp"
#include "presence.hpp"

namespace tw::search {
namespace islands_test {

using testing::message_of;

TEST(Layout, DealsOutRanksAndWorkers) {
  const Layout layout(10, {.islands = 2, .ranks_per_worker = 2, .evaluations = 1});
  EXPECT_EQ(layout.workers(), 5);
  EXPECT_EQ(layout.workers_of(0), 3);
  EXPECT_EQ(layout.workers_of(1), 2);
  EXPECT_EQ(layout.worker_of_rank(5), 2);
  EXPECT_EQ(layout.island_of(2), 0);
  EXPECT_EQ(layout.island_of(3), 1);
  EXPECT_EQ(layout.host_of(7, 1), 4);
  const Layout given(4, {.island_workers = {1, 3}, .evaluations = 1});
  EXPECT_EQ(given.workers_of(1), 3);
}

TEST(Layout, DealsOutWorkersOfAnySize) {
  const Layout layout(8, {.islands = 2, .worker_ranks = {4, 2, 1, 1}, .evaluations = 1});
  EXPECT_EQ(layout.workers(), 4);
  std::vector<int> workers;
  for (int rank = 0; rank < 8; ++rank) workers.push_back(layout.worker_of_rank(rank));
  EXPECT_EQ(workers, (std::vector<int>{0, 0, 0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(layout.first_rank(2), 6);
  EXPECT_EQ(layout.ranks_of(0), 4);
  EXPECT_EQ(layout.ranks_of(1), 2);
  EXPECT_EQ(layout.ranks_of(3), 1);
  EXPECT_EQ(layout.workers_of(0), 2);
  EXPECT_EQ(layout.island_of(2), 1);
}

TEST(Layout, RefusesWrongOptionsByName) {
  const auto refused = [](int ranks, const SearchOptions& options) { return message_of([&] { options.validate(ranks); }); };
  const auto names = [](const std::string& message, const std::string& part) { return message.find(part) != std::string::npos; };
  EXPECT_TRUE(names(refused(4, {}), "evaluations or seconds must be given"));
  EXPECT_TRUE(names(refused(4, {.ranks_per_worker = 3, .evaluations = 1}), "ranks_per_worker is 3, which does not divide the 4 ranks"));
  EXPECT_TRUE(names(refused(4, {.worker_ranks = {2, 1}, .evaluations = 1}), "worker_ranks must add up to 4, the number of ranks"));
  EXPECT_TRUE(names(refused(4, {.worker_ranks = {4, 0}, .evaluations = 1}), "worker_ranks must be at least 1"));
  EXPECT_TRUE(
      names(refused(4, {.ranks_per_worker = 2, .worker_ranks = {2, 2}, .evaluations = 1}), "ranks_per_worker is 2, but worker_ranks is set, too"));
  EXPECT_TRUE(names(refused(4, {.islands = 3, .worker_ranks = {2, 2}, .evaluations = 1}), "islands must be 1 to 2, the number of workers"));
  EXPECT_TRUE(names(refused(4, {.islands = 5, .evaluations = 1}), "islands must be 1 to 4"));
  EXPECT_TRUE(names(refused(4, {.island_workers = {1, 2}, .evaluations = 1}), "island_workers must add up to 4"));
  EXPECT_TRUE(names(refused(1, {.evaluations = -1}), "evaluations must be at least 0"));
  EXPECT_TRUE(names(refused(1, {.evaluations = 1, .max_attempts = 0}), "max_attempts must be at least 1"));
  EXPECT_TRUE(names(refused(1, {.evaluations = 1, .migration = {.probability = 2}}), "migration.probability"));
  EXPECT_TRUE(names(refused(2, {.islands = 2, .evaluations = 1, .migration = {.topology = {{0, 1}, {1, 1}}}}),
                    "migration.topology.1 must be 2 numbers of at least 0, one for each island, with 0 for itself"));
  EXPECT_TRUE(names(refused(1, {.evaluations = 1, .migration = {.topology = {{-1}}}}), "migration.topology.0 must be at least 0, got -1"));
  EXPECT_TRUE(names(refused(4, {.islands = 3, .island_workers = {2, 2}, .evaluations = 1}), "islands is 3, but the length of island_workers is 2"));
  EXPECT_TRUE(names(refused(1, {.evaluations = 1, .scheduler = PromotionOptions{{.eta = 1}}}), "promotion.eta must be at least 2, got 1"));
  EXPECT_EQ(refused(4, {.islands = 2, .evaluations = 1}), "nothing thrown");
}

TEST(Migration, GoesWhereTheTopologySays) {
  MigrationOptions options{.probability = 0.5, .topology = {{0, 1, 3}, {1, 0, 0}, {0, 0, 0}}};
  CounterRng random(1);
  std::map<int, int> counts;
  for (int i = 0; i < 8000; ++i) {
    const auto to = destination(options, 0, 3, random);
    ++counts[to ? *to : -1];
  }
  EXPECT_NEAR(counts[-1], 4000, 270);  // deviation 45
  EXPECT_NEAR(counts[1], 1000, 180);   // deviation 30
  EXPECT_NEAR(counts[2], 3000, 260);   // deviation 43
  EXPECT_EQ(counts[0], 0);
  EXPECT_EQ(destination(options, 2, 3, random), std::nullopt) << "it sends nowhere";
  options.topology = {{}, {1, 0, 0}};
  for (const int alike : {0, 2}) {
    std::map<int, int> reached;
    for (int i = 0; i < 400; ++i) ++reached[destination(options, alike, 3, random).value_or(-1)];
    for (int to = 0; to < 3; ++to)
      EXPECT_EQ(reached[to] > 0, to != alike) << "an island without a row sends to all others: " << alike << " to " << to;
  }
  options.topology.clear();
  EXPECT_EQ(destination(options, 0, 1, random), std::nullopt);
}

/// Whatever the order in which news of a journey are heard, all end with the same.
TEST(Presence, TheLatestOfAJourneyCounts) {
  struct News {
    bool arrives;
    int32_t moves;
  };
  std::vector<News> journey{{true, 0}, {false, 0}, {true, 2}, {false, 2}, {true, 5}};
  for (const size_t length : {4U, 5U}) {
    std::vector<size_t> order(length);
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      Presence presence;
      bool here = false;
      for (const size_t i : order) {
        const auto [arrives, moves] = journey[i];
        if (arrives ? presence.arrives(7, moves) : presence.departs(7, moves)) here = arrives;
      }
      ASSERT_EQ(here, length == 5);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

/// Points on a line of equal sums, and as many behind it: whoever is drawn as the best is of the line, unless none of its 20 is among 16 drawn of 40.
TEST(Residents, WithSeveralObjectivesTheBestIsOfAFront) {
  Residents wards;
  for (int64_t i = 0; i < 40; ++i) {
    const double x = static_cast<double>(i % 20);
    wards.add({.trial = i, .loss = x, .objectives = {x, 20 - x + (i < 20 ? 0.0 : 30.0)}, .state = TrialState::complete});
  }
  CounterRng random(1);
  int best = 0, worst = 0;
  std::map<int64_t, int> drawn;
  for (int i = 0; i < 2000; ++i) {
    const Individual& one = wards.chosen(Pick::best, random);
    best += one.trial < 20 ? 1 : 0;
    ++drawn[one.trial];
    worst += wards.chosen(Pick::worst, random).trial >= 20 ? 1 : 0;
  }
  EXPECT_GT(best, 1800);
  EXPECT_GT(worst, 1800);
  EXPECT_GT(drawn.size(), 15U) << "not always the same one, which is the best in the first objective";
}

}  // namespace islands_test
}  // namespace tw::search
