// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <iostream>
#include <regex>
#include <sstream>
#include <tw/comm.hpp>

namespace print_ordered_test {

using tw::testing::world;

/// What print_ordered() writes here, line by line.
std::vector<std::string> printed(const std::string& text) {
  std::ostringstream out;
  tw::print_ordered(world(), text, out);
  std::vector<std::string> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_TRUE(out.str().empty() || out.str().back() == '\n');
  return lines;
}

/// Whether `line` is "12:34:56.789 rank R: TEXT".
bool is_line(const std::string& line, int rank, const std::string& text) {
  static const std::regex time("[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}");
  constexpr size_t digits = 12;
  return line.size() > digits && std::regex_match(line.substr(0, digits), time) && line.substr(digits) == tw::concat(" rank ", rank, ": ", text);
}

TEST(PrintOrdered, WritesTheTextOfEveryRankInRankOrderOnRankZeroAlone) {
  for (int turn = 0; turn < 3; ++turn) {
    const auto lines = printed(tw::concat("hello ", turn, " from ", world().rank()));
    ASSERT_EQ(lines.size(), static_cast<size_t>(world().rank() == 0 ? world().size() : 0));  // the calls are over: nobody waits
    for (size_t rank = 0; rank < lines.size(); ++rank) {
      EXPECT_TRUE(is_line(lines[rank], static_cast<int>(rank), tw::concat("hello ", turn, " from ", rank))) << lines[rank];
    }
  }
}

// Rank r writes r lines, rank 0 none.
TEST(PrintOrdered, TakesAnyNumberOfLines) {
  std::string mine;
  for (int line = 0; line < world().rank(); ++line)
    mine += tw::concat("line ", line, line + 1 < world().rank() ? "\n" : "");  // the last is not ended
  const auto lines = printed(mine);
  size_t next = 0;
  for (int rank = 0; rank < world().size() && world().rank() == 0; ++rank) {
    for (int line = 0; line < rank; ++line, ++next) {
      ASSERT_LT(next, lines.size());
      EXPECT_TRUE(is_line(lines[next], rank, tw::concat("line ", line))) << lines[next];
    }
  }
  EXPECT_EQ(next, lines.size());
}

TEST(PrintOrdered, KeepsEmptyLinesAndLongOnes) {
  const std::string longest(100000, 'x');
  const auto lines = printed("\n" + longest + "\n");
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_TRUE(is_line(lines[i], static_cast<int>(i / 2), i % 2 == 0 ? "" : longest)) << i;
  EXPECT_EQ(lines.size(), world().rank() == 0 ? 2 * static_cast<size_t>(world().size()) : 0U);
}

TEST(PrintOrdered, WritesToStandardOutputByDefault) {
  std::ostringstream out;
  std::streambuf* const usual = std::cout.rdbuf(out.rdbuf());
  tw::print_ordered(world(), "here");
  std::cout.rdbuf(usual);
  const std::string text = out.str();
  EXPECT_EQ(is_line(text.substr(0, text.find('\n')), 0, "here"), world().rank() == 0) << text;
  EXPECT_EQ(text.empty(), world().rank() != 0) << text;
}

}  // namespace print_ordered_test
