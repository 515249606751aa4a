// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tw/base/error.hpp>
#include <tw/server_shards/rank_roles.hpp>

namespace tw::parameter_server {
namespace rank_roles_test {

using Ranks = std::vector<int>;

Ranks workers_of(const RankRoles& rank_roles, int ranks) {
  Ranks all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank_roles.worker_of(rank));
  return all;
}

TEST(RankRoles, AllTrainAndServeUnlessToldOtherwise) {
  const RankRoles rank_roles({}, 3);
  EXPECT_EQ(rank_roles.workers(), 3);
  EXPECT_EQ(workers_of(rank_roles, 3), (Ranks{0, 1, 2}));
  EXPECT_EQ(rank_roles.servers(), (Ranks{0, 1, 2}));
  EXPECT_EQ(rank_roles.members(), (Ranks{0, 1, 2}));
}

TEST(RankRoles, OnlyFirstRanksTalkToServers) {
  const RankRoles rank_roles({.ranks_per_worker = 2, .servers = {1}}, 6);
  EXPECT_EQ(workers_of(rank_roles, 6), (Ranks{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(rank_roles.leaders(), (Ranks{0, 2, 4}));
  EXPECT_EQ(rank_roles.members(), (Ranks{0, 1, 2, 4}));
}

TEST(RankRoles, DedicatedServersDoNotTrain) {
  const RankRoles rank_roles({.ranks_per_worker = 2, .servers = {0, 3}, .dedicated = true}, 6);
  EXPECT_EQ(workers_of(rank_roles, 6), (Ranks{-1, 0, 0, -1, 1, 1}));
  EXPECT_EQ(rank_roles.leaders(), (Ranks{1, 4}));
  EXPECT_EQ(rank_roles.servers(), (Ranks{0, 3}));
  EXPECT_EQ(rank_roles.members(), (Ranks{0, 1, 3, 4}));
}

TEST(RankRoles, RefusesRolesThatDoNotFit) {
  EXPECT_THROW(RankRoles({.ranks_per_worker = 0}, 2), ContractError);
  EXPECT_THROW(RankRoles({.ranks_per_worker = 2}, 3), ContractError);
  EXPECT_THROW(RankRoles({.servers = {2}}, 2), ContractError);
  EXPECT_THROW(RankRoles({.servers = {1, 1}}, 2), ContractError);
  EXPECT_THROW(RankRoles({.servers = {0, 1}, .dedicated = true}, 2), ContractError);
  EXPECT_THROW(RankRoles({.dedicated = true}, 2), ContractError);
}

}  // namespace rank_roles_test
}  // namespace tw::parameter_server
