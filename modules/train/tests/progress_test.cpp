// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tw/base/error.hpp>

#include "data_identity.hpp"
#include "progress.hpp"

namespace progress_test {

using tw::train::Progress;

TEST(Progress, SurvivesItsFileBitForBit) {
  Progress progress;
  progress.epoch = 3;
  progress.consumed = 12345;
  progress.step = 98765;
  progress.data = "5 and 3 samples, 1f";
  progress.best = 0.1 + 0.2;
  progress.finished = true;
  progress.test = {{"loss", 1.0 / 3}, {"accuracy", 0.875}};
  progress.loss_samples = {0, 1, 12345};
  progress.loss_sums = {std::nextafter(1.0, 2.0), 5e-324, -1e300};
  const Progress back = tw::train::progress_from_json(tw::train::to_json(progress));
  EXPECT_EQ(back.epoch, 3);
  EXPECT_EQ(back.consumed, 12345);
  EXPECT_EQ(back.step, 98765);
  EXPECT_EQ(back.data, progress.data);
  EXPECT_EQ(back.best, progress.best);
  EXPECT_TRUE(back.finished);
  EXPECT_EQ(back.test, progress.test);
  EXPECT_EQ(back.loss_sums, progress.loss_sums);
  EXPECT_EQ(back.loss_samples, progress.loss_samples);
}

// Identities of older versions do not name the validation data, which is then ignored.
TEST(DataIdentity, ComparesWhatBothName) {
  const std::string older = "to train: 31 samples, content 1f; to test: 5 samples, content 2e";
  const std::string now = older + "; to validate: 5 samples, content 3d";
  EXPECT_FALSE(tw::train::names_validation(older));
  EXPECT_TRUE(tw::train::names_validation(now));
  EXPECT_TRUE(tw::train::is_same_data(older, now));
  EXPECT_TRUE(tw::train::is_same_data(now, now));
  EXPECT_FALSE(tw::train::is_same_data(now, older + "; to validate: 5 samples, content 4d"));
  EXPECT_FALSE(tw::train::is_same_data(now, older + "; to validate: nothing"));
  EXPECT_FALSE(tw::train::is_same_data(older, "to train: 31 samples, content 1f; to test: 4 samples, content 2e"));
  EXPECT_FALSE(tw::train::is_same_data(older + "0", now));
}

TEST(Progress, TakesFiguresThatAreNotFinite) {
  Progress progress;
  progress.best = std::numeric_limits<double>::quiet_NaN();
  progress.test = {{"loss", std::numeric_limits<double>::infinity()}};
  const Progress back = tw::train::progress_from_json(tw::train::to_json(progress));
  EXPECT_FALSE(std::isfinite(back.best));
  EXPECT_FALSE(std::isfinite(back.test.at(0).second));
}

TEST(Progress, RefusesWhatIsNoProgress) {
  EXPECT_THROW((void)tw::train::progress_from_json("{}"), tw::Error);
  EXPECT_THROW((void)tw::train::progress_from_json("nonsense"), tw::Error);
  const std::string text = tw::train::to_json({});
  EXPECT_TRUE(text.starts_with(R"({"version":1,)")) << text;
  EXPECT_NO_THROW((void)tw::train::progress_from_json(R"({"epoch":1,"consumed":2,"step":3,"global_batch":4,"seed":5})"));
  EXPECT_THROW((void)tw::train::progress_from_json(R"({"version":2,"epoch":1,"consumed":2,"step":3,"global_batch":4,"seed":5})"), tw::Error);
}

TEST(Progress, GivesEveryRankItsLossOrTheFirstAll) {
  const std::vector<double> sums{1, 2, 4};
  EXPECT_EQ(tw::train::share_of(sums, 1, 3), 2);
  EXPECT_EQ(tw::train::share_of(sums, 0, 2), 7);
  EXPECT_EQ(tw::train::share_of(sums, 1, 2), 0);
}

}  // namespace progress_test
