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

// Threads 0 and 4 are those of the first core, 1 and 5 of the second, and so on.
TEST(Cores, CountOnceWhateverTheirThreads) {
  const std::vector<int> lowest{0, 1, 2, 3, 0, 1, 2, 3};
  const auto cores_of = [&](std::initializer_list<int> threads) { return tw::mpi::cores_of(cores(threads), lowest); };
  const auto expect_cores = [&](std::initializer_list<int> threads, std::initializer_list<int> expected) {
    const cpu_set_t found = cores_of(threads);
    const cpu_set_t wanted = cores(expected);
    EXPECT_TRUE(CPU_EQUAL(&found, &wanted)) << CPU_COUNT(&found);
  };
  expect_cores({0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3});
  expect_cores({4, 5}, {0, 1});
  expect_cores({3, 9}, {3, 9});  // of thread 9 nothing is known
  expect_cores({}, {});
  EXPECT_EQ(shares({cores_of({0, 1, 4, 5}), cores_of({2, 3, 6, 7})}), (std::vector{2, 2}));
  EXPECT_EQ(shares({cores_of({0, 1}), cores_of({4, 5})}), (std::vector{1, 1})) << "two ranks on the threads of two cores";
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
