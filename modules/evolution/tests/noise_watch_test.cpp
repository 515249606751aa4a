// SPDX-License-Identifier: Apache-2.0
#include "noise_watch.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tw::search {
namespace noise_watch_test {

TEST(NoiseWatch, AsksOnceWhenModelsAreRefutedInARow) {
  NoiseWatch watch;
  watch.refuted(1);
  EXPECT_FALSE(watch.asks_for_a_twin()) << "once may be the model's fault";
  watch.confirmed();
  watch.refuted(1);
  EXPECT_FALSE(watch.asks_for_a_twin());
  watch.refuted(1);
  EXPECT_TRUE(watch.asks_for_a_twin());
  EXPECT_FALSE(watch.asks_for_a_twin());
  watch.refuted(1);
  EXPECT_FALSE(watch.asks_for_a_twin()) << "before the answer";
}

TEST(NoiseWatch, FindsWhatExplainsTheError) {
  NoiseWatch watch;
  for (int i = 0; i < 2; ++i) watch.refuted(1);
  watch.compare(-0.02, 100);
  EXPECT_TRUE(watch.found());
}

TEST(NoiseWatch, TakesNeitherSlopesNorRoundingForNoise) {
  NoiseWatch slope;
  for (int i = 0; i < 2; ++i) slope.refuted(1);
  slope.compare(0.009, 1);
  EXPECT_FALSE(slope.found());
  NoiseWatch rounding;
  for (int i = 0; i < 2; ++i) rounding.refuted(1);
  rounding.compare(0.02, 1e5);
  EXPECT_FALSE(rounding.found());
}

// A pair that shows no noise at an error of 1 may still hide noise that explains an error of 1e-7.
TEST(NoiseWatch, AsksAgainWhereErrorsAreFarSmaller) {
  NoiseWatch watch;
  for (int i = 0; i < 2; ++i) watch.refuted(1);
  EXPECT_TRUE(watch.asks_for_a_twin());
  watch.compare(0, 1);
  watch.refuted(2e-6);
  EXPECT_FALSE(watch.asks_for_a_twin());
  watch.refuted(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(watch.asks_for_a_twin());
  watch.refuted(1e-7);
  EXPECT_TRUE(watch.asks_for_a_twin());
}

}  // namespace noise_watch_test
}  // namespace tw::search
