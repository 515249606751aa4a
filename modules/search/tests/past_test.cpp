// SPDX-License-Identifier: Apache-2.0
#include "past.hpp"

#include <gtest/gtest.h>

namespace tw::search {
namespace past_test {

constexpr size_t workers = 2;

JournalHeader header(int worker, int epoch = 0) {
  return {.space = 1, .seed = 2, .epoch = epoch, .worker = worker, .islands = {workers}, .evaluations = 6, .ranks = std::vector<int>(workers, 1)};
}

/// Trials `ended` of a worker, and one that was in flight.
JournalFile file(int worker, const std::vector<int64_t>& ended, int64_t in_flight) {
  JournalFile file{.path = "journal", .header = header(worker)};
  const auto add = [&](Record::Kind kind, int64_t trial, TrialState state) {
    file.records.push_back({.kind = kind, .individual = {.trial = trial, .values = {0.5}, .state = state}});
  };
  for (const int64_t trial : ended) {
    add(Record::Kind::start, trial, TrialState::running);
    add(Record::Kind::end, trial, TrialState::complete);
  }
  add(Record::Kind::start, in_flight, TrialState::running);
  return file;
}

std::vector<JournalFile> two_files() { return {file(0, {0, 2}, 4), file(1, {1}, 3)}; }

TEST(Past, ASearchBeginsWithoutFiles) {
  const Past past = past_of({}, header(1), {}, false);
  EXPECT_FALSE(past.replays);
  EXPECT_EQ(past.header, header(1));
  EXPECT_EQ(past.own_file(), nullptr);
  EXPECT_TRUE(past.files_of_epoch().empty());
  EXPECT_TRUE(read_past("", header(1)).empty());
}

TEST(Past, TheSameLayoutContinuesItsFiles) {
  JournalHeader own = header(1);
  own.evaluations = 100;
  const Past past = past_of(two_files(), own, {}, false);
  EXPECT_TRUE(past.replays);
  EXPECT_EQ(past.header, header(1)) << "propagators are made for the evaluations that the journal names";
  ASSERT_NE(past.own_file(), nullptr);
  EXPECT_EQ(past.own_file()->header.worker, 1);
  EXPECT_EQ(past.files_of_epoch().size(), 2U);
  EXPECT_TRUE(past.ended_before().empty());
  ASSERT_FALSE(past.all.interrupted.empty());
  for (const Interrupted& each : past.all.interrupted) {
    EXPECT_EQ(past.worker_for(each), each.worker);
    EXPECT_EQ(each.blame, Blame::shared);
  }
}

TEST(Past, AnotherLayoutBeginsAnEpoch) {
  JournalHeader own = header(0);
  own.islands = {1, 1};
  const Past past = past_of(two_files(), own, {0}, false);
  EXPECT_FALSE(past.replays);
  EXPECT_EQ(past.gap, "");
  EXPECT_EQ(past.header.epoch, 1);
  EXPECT_EQ(past.header.first_trial, 5);
  EXPECT_EQ(past.own_file(), nullptr);
  EXPECT_EQ(past.ended_before().size(), 3U);
  ASSERT_EQ(past.all.interrupted.size(), 2U);
  for (const Interrupted& each : past.all.interrupted) EXPECT_EQ(past.worker_for(each), each.individual.trial % 2);
  EXPECT_EQ(past.all.interrupted[0].blame, Blame::sole) << "worker 0 was asked to end";
}

TEST(Past, WhatIsMissingBeginsAnEpoch) {
  std::vector<JournalFile> files = two_files();
  files[1].records.push_back({.kind = Record::Kind::arrival, .individual = {.trial = 6}});
  const Past past = past_of(files, header(0), {}, false);
  EXPECT_FALSE(past.replays);
  EXPECT_EQ(past.gap, "the end of trial 6 is missing");
  EXPECT_EQ(past.header.epoch, 1);
}

TEST(Backlog, IsWhatIsLeftOfTheEvaluations) {
  for (const int worker : {0, 1}) {
    const Past past = past_of(two_files(), header(worker), {}, false);
    const Backlog six = backlog_of(past, 6, 2);
    ASSERT_EQ(six.interrupted.size(), 1U);
    EXPECT_EQ(six.interrupted[0].individual.trial, worker == 0 ? 4 : 3);
    EXPECT_EQ(six.evaluations, 1);
    EXPECT_TRUE(six.turns.has(3)) << "interrupted trials are repeated one after another";
    EXPECT_EQ(backlog_of(past, 4, 2).interrupted.size(), worker == 0 ? 0U : 1U);
    EXPECT_EQ(backlog_of(past, 4, 2).evaluations, 0);
    EXPECT_TRUE(backlog_of(past, 2, 2).interrupted.empty()) << "more have ended";
    EXPECT_GT(backlog_of(past, 0, 2).evaluations, int64_t{1} << 50) << "no limit";
  }
}

}  // namespace past_test
}  // namespace tw::search
