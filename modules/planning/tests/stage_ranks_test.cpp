// SPDX-License-Identifier: Apache-2.0
// Assignment of rows to ranks: every row is once on every stage, and peers agree on what they exchange.
#include <tw/planning/stage_ranks.hpp>

#include <gtest/gtest.h>

namespace tw::pipeline {
namespace stage_ranks_test {

TEST(StageRanks, LieOneStageBehindTheOther) {
  const StageRanks ranks({2, 1, 3});
  const std::vector<int> stages{0, 0, 1, 2, 2, 2};
  const std::vector<int> replicas{0, 1, 0, 0, 1, 2};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(ranks.device_of(rank), stages[static_cast<size_t>(rank)]);
    EXPECT_EQ(ranks.replica_of(rank), replicas[static_cast<size_t>(rank)]);
  }
}

TEST(StageRanks, TheFirstPartsHaveOneMore) {
  EXPECT_EQ(part_of({5, 12}, 3, 0), (Rows{5, 8}));
  EXPECT_EQ(part_of({5, 12}, 3, 1), (Rows{8, 10}));
  EXPECT_EQ(part_of({5, 12}, 3, 2), (Rows{10, 12}));
  EXPECT_EQ(part_of({5, 6}, 3, 1).count(), 0);
}

TEST(StageRanks, ShareEveryRowOnce) {
  for (const std::vector<int>& replicas : std::vector<std::vector<int>>{{1, 3}, {3, 2}, {2, 2, 5}, {4, 1, 1}}) {
    const StageRanks ranks(replicas);
    for (int64_t count = 1; count < 12; ++count) {
      const Rows all{3, 3 + count};
      for (int stage = 0; stage < ranks.stages(); ++stage) {
        int64_t next = all.begin;
        for (int r = 0; r < ranks.replicas(stage); ++r) {
          const Rows share = ranks.share(all, ranks.first_rank(stage) + r);
          EXPECT_EQ(share.begin, next);
          EXPECT_LE(share.count(), count / ranks.replicas(stage) + 1);
          next = share.end;
        }
        EXPECT_EQ(next, all.end);
      }
    }
  }
}

TEST(StageRanks, PartnersAgree) {
  const StageRanks ranks({3, 4, 2});
  for (int64_t count = 1; count < 15; ++count) {
    const Rows all{0, count};
    for (int rank = 0; rank < 9; ++rank) {
      const Rows mine = ranks.share(all, rank);
      for (const int step : {-1, 1}) {
        int64_t next = mine.begin;
        for (const Peer& peer : ranks.peers(ranks.device_of(rank) + step, all, mine)) {
          EXPECT_EQ(peer.rows.begin, next);
          next = peer.rows.end;
          EXPECT_GT(peer.rows.count(), 0);
          const std::vector<Peer> back = ranks.peers(ranks.device_of(rank), all, ranks.share(all, peer.rank));
          EXPECT_NE(std::find(back.begin(), back.end(), Peer{rank, peer.rows}), back.end());
        }
        const bool exists = ranks.device_of(rank) + step >= 0 && ranks.device_of(rank) + step < 3;
        EXPECT_EQ(next, exists ? mine.end : mine.begin);
      }
    }
  }
}

TEST(StageRanks, LieWithSeveralStagesOnADevice) {
  const StageRanks ranks({2, 1}, {0, 1, 1, 0});
  EXPECT_EQ(ranks.devices(), 2);
  EXPECT_EQ(ranks.stages(), 4);
  EXPECT_EQ(ranks.stages_of(0), (std::vector<int>{0, 3}));
  EXPECT_EQ(ranks.stage_names(0), "stages 0, 3");
  EXPECT_TRUE(ranks.has(1, 3));
  EXPECT_FALSE(ranks.has(1, 2));
  EXPECT_FALSE(ranks.has(1, 4));
  EXPECT_FALSE(ranks.has(1, -1));
  EXPECT_EQ(ranks.peers(2, {0, 4}, {2, 4}), (std::vector<Peer>{{2, {2, 4}}})) << "device 1 is rank 2";
  EXPECT_EQ(ranks.peers(3, {0, 4}, {0, 4}), (std::vector<Peer>{{0, {0, 2}}, {1, {2, 4}}}));
}

}  // namespace stage_ranks_test
}  // namespace tw::pipeline
