// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tw/data_parallel/unit_memory.hpp>

namespace unit_memory_test {

using tw::buffer_bytes_for_units;

TEST(UnitMemory, OneUnitIsGatheredBesideTheOneInUse) {
  EXPECT_EQ(buffer_bytes_for_units({30, 20, 40, 10}, 0, 0), 2 * 40);
  EXPECT_EQ(buffer_bytes_for_units({30, 20, 40, 10}, 1, 0), 2 * 40);
  EXPECT_EQ(buffer_bytes_for_units({30, 20, 40, 10}, 2, 0), 3 * 40);
}

TEST(UnitMemory, AsManyAsAreGatheredAtATimeHaveTheirOwn) {
  EXPECT_EQ(buffer_bytes_for_units({30, 20}, 0, 0), 50);
  EXPECT_EQ(buffer_bytes_for_units({30}, 0, 0), 30);
  EXPECT_EQ(buffer_bytes_for_units({30, 20, 40, 10}, 3, 0), 100);
}

TEST(UnitMemory, KeptUnitsAreThereBeside) { EXPECT_EQ(buffer_bytes_for_units({30, 20, 40, 10}, 0, 35), 30 + 2 * 40); }

}  // namespace unit_memory_test
