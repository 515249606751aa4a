// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <tw/base.hpp>

namespace progress_bar_test {

TEST(Progress, ShowsShareRateAndRemainingTime) {
  const tw::Progress progress{.label = "epoch 1/2", .done = 2500, .total = 10000, .elapsed = tw::Seconds(2), .unit = "images", .note = "loss 0.5"};
  EXPECT_EQ(tw::render_progress(progress, 8), "epoch 1/2 [==      ]  25%  1.25k images/s  0:06 left  loss 0.5");
}

TEST(Progress, ShowsTheTimeTakenAtTheEnd) {
  const tw::Progress progress{.label = "epoch", .done = 10, .total = 10, .elapsed = tw::Seconds(4), .unit = "steps", .note = {}};
  EXPECT_EQ(tw::render_progress(progress, 0), "epoch 100%  2.50 steps/s  in 0:04");
}

TEST(Progress, HasNoRateWithoutAUnit) {
  const tw::Progress progress{.label = "search", .done = 500, .total = 1000, .elapsed = tw::Seconds(2), .unit = {}, .note = {}};
  EXPECT_EQ(tw::render_progress(progress, 0), "search  50%  0:02 left");
}

TEST(Progress, ToleratesNothingToDo) {
  EXPECT_EQ(tw::render_progress({.label = "empty", .unit = "steps", .note = {}}, 4), "empty [====] 100%  0.00 steps/s  in 0:00");
}

TEST(Progress, FormatsDurationsAndCounts) {
  EXPECT_EQ(tw::format_duration(tw::Seconds(3723)), "1:02:03");
  EXPECT_EQ(tw::format_duration(tw::Seconds(-1)), "?");
  EXPECT_EQ(tw::format_count(987), "987");
  EXPECT_EQ(tw::format_count(12345), "12.3k");
  EXPECT_EQ(tw::format_count(4.56e6), "4.56M");
}

TEST(ProgressBar, WritesAtMostElevenPlainLinesWhereThereIsNoTerminal) {
  std::ostringstream out;
  tw::ProgressBar bar(out, /*terminal=*/false, "epoch", "steps", 1000);
  for (int64_t step = 1; step <= 1000; ++step) bar.update(step);
  bar.finish("done");
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);  // 10 %, 20 %, ..., 90 %, and the end
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("done"), std::string::npos);
}

TEST(ProgressBar, RedrawsOneLineOnATerminal) {
  std::ostringstream out;
  tw::ProgressBar bar(out, /*terminal=*/true, "epoch", "steps", 2);
  bar.update(1, "a long note that must be wiped");
  bar.update(2);
  bar.finish();
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const size_t first = text.find('\r', 1) - 1;      // characters of the first line
  EXPECT_GE(text.size() - (first + 2) - 1, first);  // the second line covers all of them
}

}  // namespace progress_bar_test
