// SPDX-License-Identifier: Apache-2.0
// When workers were evaluating what: no two trials of a row overlap, and there is no row too many.
#include "timelines.hpp"

#include <gtest/gtest.h>

namespace tw::search {
namespace timelines_test {

LedgerEntry entry_of(int64_t trial, int worker, double begin, double end, std::vector<Pause> pauses = {}) {
  return {.individual = {.trial = trial, .state = TrialState::complete},
          .worker = worker,
          .begin = begin,
          .end = end,
          .last_activity = end,
          .pauses = std::move(pauses)};
}

std::vector<std::vector<int64_t>> trials_of(const Timeline& timeline) {
  std::vector<std::vector<int64_t>> trials;
  for (const auto& row : timeline) {
    trials.emplace_back();
    for (const TimeSpan& span : row) trials.back().push_back(span.entry->individual.trial);
  }
  return trials;
}

using Rows = std::vector<std::vector<int64_t>>;

TEST(Timelines, TrialsOneAfterTheOtherAreOneRow) {
  const Ledger ledger{.trials = {entry_of(0, 0, 0, 1), entry_of(1, 1, 0, 2), entry_of(2, 0, 1, 3)}, .workers = 3};
  const std::vector<Timeline> timelines = timelines_of(ledger);
  ASSERT_EQ(timelines.size(), 3U);
  EXPECT_EQ(trials_of(timelines[0]), Rows({{0, 2}}));
  EXPECT_EQ(trials_of(timelines[1]), Rows({{1}}));
  EXPECT_TRUE(timelines[2].empty());
}

/// Three members take turns of a second; a fourth one begins when the first has ended.
TEST(Timelines, MembersThatTakeTurnsHaveRowsOfTheirOwn) {
  const Ledger ledger{
      .trials = {entry_of(0, 0, 0, 4, {{1, 3}}), entry_of(1, 0, 1, 5, {{2, 4}}), entry_of(2, 0, 2, 6, {{3, 5}}), entry_of(3, 0, 6, 7)}, .workers = 1};
  const Timeline timeline = timelines_of(ledger)[0];
  EXPECT_EQ(trials_of(timeline), Rows({{0, 0, 3}, {1, 1}, {2, 2}}));
  EXPECT_EQ(timeline[1][0].from, 1);
  EXPECT_EQ(timeline[1][0].to, 2);
  EXPECT_EQ(timeline[1][1].from, 4);
  EXPECT_EQ(timeline[1][1].to, 5);
  EXPECT_TRUE(timeline[1][0].is_first);
  EXPECT_FALSE(timeline[1][1].is_first);
}

/// Whose pause nothing has ended, such as one that is pruned when the search ends, ran until it paused.
TEST(Timelines, APauseThatDoesNotEndTakesNoRoom) {
  const Ledger ledger{.trials = {entry_of(0, 0, 0, 9, {{1}}), entry_of(1, 0, 1, 9, {{2}}), entry_of(2, 0, 2, 3)}, .workers = 1};
  EXPECT_EQ(trials_of(timelines_of(ledger)[0]), Rows({{0, 1, 2}}));
}

TEST(Timelines, HaveAsManyRowsAsTrialsAtATime) {
  Ledger ledger{.workers = 1};
  for (int64_t trial = 0; trial < 300; ++trial) {
    const auto begin = static_cast<double>((trial * 37) % 300);
    ledger.trials.push_back(entry_of(trial, 0, begin, begin + 7));
  }
  const Timeline timeline = timelines_of(ledger)[0];
  EXPECT_EQ(timeline.size(), 7U);  // each second one begins that takes seven
  for (const auto& row : timeline) {
    for (size_t i = 1; i < row.size(); ++i) EXPECT_LE(row[i - 1].to, row[i].from);
  }
}

}  // namespace timelines_test
}  // namespace tw::search
