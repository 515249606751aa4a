// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tw/base/error.hpp>
#include <tw/train/console.hpp>
#include <tw/train/metrics_log.hpp>

namespace {

const tw::train::EpochReport epoch{
    .epoch = 1, .train_loss = 0.5, .test_loss = 0.4, .test_accuracy = 0.875, .train_time = tw::Seconds(2), .samples = 1000};
const tw::train::Summary summary{.ranks = 2,
                                 .epochs = 1,
                                 .steps = 8,
                                 .parameters = 431080,
                                 .test_samples = 10000,
                                 .test_loss = 0.4,
                                 .test_accuracy = 0.8912,
                                 .samples_per_s = 7480,
                                 .exposed_comm_share = 0.05,
                                 .train_time = tw::Seconds(16)};

TEST(MetricsLog, EndsWithTheSummary) {
  const tw::train::Options options{.name = "observers", .output = std::filesystem::path(testing::TempDir()) / "tw_runs"};
  for (int run = 0; run < 2; ++run) {  // the second replaces the first
    tw::train::MetricsLog log(options);
    log.on_epoch_end(epoch);
    log.on_end(summary);
  }
  std::ifstream in(options.output / "observers" / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["event"], "epoch");
  EXPECT_EQ(lines[0]["test_accuracy"], 0.875);
  EXPECT_EQ(lines[1]["event"], "summary");
  EXPECT_EQ(lines[1]["test_accuracy"], 0.8912);
  EXPECT_EQ(lines[1]["samples_per_s"], 7480);
  EXPECT_EQ(lines[1]["exposed_comm_share"], 0.05);
  EXPECT_EQ(lines[1]["ranks"], 2);
}

TEST(MetricsLog, NamesTheFolderThatCannotBeMade) {
  const auto file = std::filesystem::path(testing::TempDir()) / "tw_a_file";
  std::ofstream(file) << "in the way";
  EXPECT_THROW(tw::train::MetricsLog({.name = "run", .output = file}), tw::FileError);
}

TEST(Console, ShowsProgressAndASummary) {
  std::ostringstream out;
  tw::train::Console console(out, /*terminal=*/false, {.name = "lenet", .epochs = 1, .batch_size = 64});
  console.on_epoch_begin(1, 1000);
  for (int64_t samples = 100; samples <= 1000; samples += 100) console.on_step({1, samples, 0.5});
  console.on_epoch_end(epoch);
  console.on_end(summary);
  const std::string text = out.str();
  for (const char* expected :
       {"epoch 1/1  50%", "loss 0.500  test accuracy 87.50 %", "lenet: done", "test accuracy  89.12 % of 10,000 images",
        "431,080 parameters, 1 epochs, 8 steps of 2 x 64 images, in 0:16", "7.48k images/s on 2 ranks", "5.00 % of the step time"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << " in:\n" << text;
  }
}

}  // namespace
