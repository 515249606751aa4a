// SPDX-License-Identifier: Apache-2.0
#include "one_call.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace one_call_test {

constexpr int64_t largest = std::numeric_limits<int>::max();

// Parts that fit an int, although the whole does not.
TEST(OneCall, TakesWhatFitsByItsWholeLength) {
  EXPECT_TRUE(tw::mpi::fits_one_call(largest, 1, largest));
  EXPECT_FALSE(tw::mpi::fits_one_call(largest + 1, 1, largest));
  EXPECT_TRUE(tw::mpi::fits_one_call((int64_t{1} << 30) - 1, 2, largest));
  EXPECT_FALSE(tw::mpi::fits_one_call(int64_t{1} << 30, 2, largest));
  EXPECT_TRUE(tw::mpi::fits_one_call(largest / 3, 3, largest));
  EXPECT_FALSE(tw::mpi::fits_one_call(largest / 3 + 1, 3, largest));
  EXPECT_FALSE(tw::mpi::fits_one_call(int64_t{1} << 31, 1000, largest));
  EXPECT_FALSE(tw::mpi::fits_one_call(int64_t{1} << 62, 4, largest));  // 2^64 would be 0 in an int64_t
  EXPECT_TRUE(tw::mpi::fits_one_call(0, 1000, largest));
}

}  // namespace one_call_test
