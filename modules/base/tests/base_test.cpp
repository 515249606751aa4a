// SPDX-License-Identifier: Apache-2.0
#include "grouping_locale.hpp"
#include "message_of.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <tw/base.hpp>
#include <tw/base/clock.hpp>
#include <tw/base/terminal.hpp>

namespace base_test {

TEST(Contract, NamesMessageValuesAndPlace) {
  const int batch = -3;
  try {
    TW_EXPECTS(batch > 0, "batch must be positive, got ", batch);
    FAIL() << "no exception";
  } catch (const tw::ContractError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("batch must be positive, got -3"), std::string::npos) << text;
    EXPECT_NE(text.find("base_test.cpp"), std::string::npos) << text;
    EXPECT_NE(text.find("batch > 0"), std::string::npos) << text;
    EXPECT_EQ(tw::last_error_message(), text);
  }
}

TEST(Contract, NamesTheRankOnceItIsKnown) {
  tw::set_process_rank(7);
  try {
    TW_EXPECTS(false, "no");
    FAIL() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_EQ(std::string(error.what()).find("rank 7: no"), 0U) << error.what();
  }
  tw::set_process_rank(-1);
}

TEST(Process, ItsLabelIsTakenOffTheFrontAlone) {
  tw::set_process_rank(7);
  EXPECT_EQ(tw::without_process_label("rank 7: no"), "no");
  EXPECT_EQ(tw::without_process_label("rank 71: no, rank 7: yes"), "rank 71: no, rank 7: yes");
  EXPECT_EQ(tw::without_process_label(""), "");
  tw::set_process_rank(-1);
  EXPECT_EQ(tw::without_process_label("this process: no"), "no");
}

TEST(Log, GoesToTheFunctionOfTheProgram) {
  std::vector<std::pair<tw::LogLevel, std::string>> lines;
  tw::set_process_rank(7);
  tw::set_log_function([&](tw::LogLevel level, std::string_view line) { lines.emplace_back(level, line); });
  tw::log_warning("late by ", 3, " s: {}");
  tw::set_process_rank(-1);
  tw::log_error("lost");
  tw::set_log_function([&](tw::LogLevel, std::string_view) { throw std::runtime_error("full"); });
  EXPECT_NO_THROW(tw::log_error("dropped"));
  tw::set_log_function({});
  const std::vector<std::pair<tw::LogLevel, std::string>> expected{{tw::LogLevel::warning, "[rank 7] late by 3 s: {}"},
                                                                   {tw::LogLevel::error, "lost"}};
  EXPECT_EQ(lines, expected);
}

TEST(Version, OfHeadersIsThatOfTheLibrary) {
  EXPECT_EQ(tw::build_info().version, tw::version_string);
  int major = 0;
  int minor = 0;
  int patch = 0;
  ASSERT_EQ(std::sscanf(tw::version_string.data(), "%d.%d.%d", &major, &minor, &patch), 3);
  EXPECT_EQ(TW_VERSION, 10000 * major + 100 * minor + patch);
}

TEST(Concat, IsTheSameUnderEveryLocale) {
  const tw::testing::GroupingLocale odd;
  EXPECT_EQ(tw::concat(1234567, ' ', 1234.5), "1234567 1234.5");
  double value = 0;
  tw::TextReader("1234.5") >> value;
  EXPECT_EQ(value, 1234.5);
}

TEST(Joined, PutsTheSeparatorBetweenValuesOnly) {
  EXPECT_EQ(tw::joined(std::vector<std::string>()), "");
  EXPECT_EQ(tw::joined(std::vector<std::string>{"", "b", ""}), ", b, ");
  EXPECT_EQ(tw::joined(std::vector{1.5, 2000.0}, " x ", [](double each) { return 2 * each; }), "3 x 4000");
}

TEST(Contract, EvaluatesItsConditionOnce) {
  int calls = 0;
  TW_EXPECTS(++calls == 1, "twice");
  TW_ASSERT(++calls == 2);
  EXPECT_EQ(calls, 2);
}

TEST(Contract, ABrokenInvariantCanBeCaught) {
  const auto broken = [] { TW_ASSERT(1 > 2); };
  const std::string message = tw::testing::message_of<tw::ContractError>(broken);
  EXPECT_NE(message.find("broken invariant of Torchweave"), std::string::npos) << message;
  EXPECT_NE(message.find("[base_test.cpp:"), std::string::npos) << message;
}

TEST(FileError, NamesFileAndOffset) {
  const tw::FileError error("train-images", 16, "ends early");
  EXPECT_STREQ(error.what(), "train-images at byte 16: ends early");
  EXPECT_EQ(error.offset(), 16);
}

TEST(NearestName, PicksTheSmallestEditDistance) {
  const std::vector<std::string> names{"optimizer.lr", "optimizer.name", "epochs"};
  EXPECT_EQ(tw::nearest_name("optimiser.lr", names), "optimizer.lr");
  EXPECT_EQ(tw::nearest_name("epoch", names), "epochs");
  EXPECT_EQ(tw::nearest_name("anything", {}), "");
}

TEST(Suggestion, NeedsCandidates) {
  const std::vector<std::string> names{"row", "column"};
  EXPECT_EQ(tw::suggestion("colum", names), "; did you mean 'column'?");
  EXPECT_EQ(tw::suggestion("colum", names, ""), "; did you mean column?");
  EXPECT_EQ(tw::suggestion("colum", {}), "");
}

TEST(Terminal, WaitsUntilItsPipeIsRead) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const int before = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  char letter = 'x';
  ASSERT_EQ(::write(STDOUT_FILENO, &letter, 1), 1);
  const tw::Stopwatch unread;
  tw::wait_until_output_is_read(std::chrono::milliseconds(20));
  const double waited = unread.elapsed().count();
  ASSERT_EQ(::read(ends[0], &letter, 1), 1);
  const tw::Stopwatch read;
  tw::wait_until_output_is_read(std::chrono::minutes(1));
  const double after = read.elapsed().count();
  ::dup2(before, STDOUT_FILENO);
  for (const int end : {ends[0], ends[1], before}) ::close(end);
  EXPECT_GE(waited, 0.02);
  EXPECT_LT(after, 30);
}

TEST(ContentHash, IsXxh3) {
  // The published XXH3_64bits value of no bytes, seed 0.
  EXPECT_EQ(tw::content_hash(""), 0x2d06800538d394c2ULL);
  EXPECT_NE(tw::content_hash("weights"), tw::content_hash("weighta"));
}

}  // namespace base_test
