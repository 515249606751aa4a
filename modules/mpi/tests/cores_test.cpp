// SPDX-License-Identifier: Apache-2.0
#include "cores.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace cores_test {

constexpr int of_node = 64;

cpu_set_t cores(std::initializer_list<int> some) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : some) CPU_SET(core, &set);
  return set;
}

std::vector<int> shares(const std::vector<cpu_set_t>& affinities) {
  std::vector<int> all;
  for (size_t own = 0; own < affinities.size(); ++own) all.push_back(tw::mpi::share_of_cores(affinities, own, of_node));
  return all;
}

TEST(Cores, AreDividedAmongTheRanksThatMayUseTheSame) {
  const cpu_set_t socket = cores({0, 1, 2, 3, 4, 5, 6, 7});
  const cpu_set_t other = cores({8, 9, 10, 11, 12, 13, 14, 15});
  EXPECT_EQ(shares({socket}), (std::vector{8}));
  EXPECT_EQ(shares({socket, other, socket}), (std::vector{4, 8, 4}));
  EXPECT_EQ(shares({socket, socket, socket, other}), (std::vector{2, 2, 2, 8}));  // rounded down
}

TEST(Cores, ARankHasOneAtLeast) {
  const cpu_set_t two = cores({3, 5});
  EXPECT_EQ(shares({two, two, two}), (std::vector{1, 1, 1}));
  EXPECT_EQ(shares({cores({0}), cores({1})}), (std::vector{1, 1}));
}

TEST(Cores, AreThoseOfTheNodeWhereTheAffinityIsNotKnown) {
  EXPECT_EQ(shares({cores({}), cores({})}), (std::vector{32, 32}));
  EXPECT_EQ(shares({cores({}), cores({1, 2})}), (std::vector{64, 2}));
}

}  // namespace cores_test
