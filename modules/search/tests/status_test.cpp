// SPDX-License-Identifier: Apache-2.0
#include "ledgers.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <tw/base/error.hpp>
#include <tw/search/status.hpp>

#include "description.hpp"

namespace tw::search {
namespace status_test {

using namespace testing;

/// Of a journal with trials in each state, one of which is under way at its second attempt.
TEST(Status, SaysHowFarASearchHasCome) {
  const fs::path folder = write_journal("status");
  EXPECT_THROW(status_text(folder, 0, false), FileError) << "it is of an earlier version";
  write_description(folder, small_space(), {.evaluations = 10});
  const Ledger ledger = read_ledger(folder, small_space());
  const double now = ledger.find(4)->begin + 65;
  const std::string runs = status_text(folder, now, true);
  for (const char* line : {"search: 1 complete, 1 pruned, 1 failed, 1 infeasible; running\n", "  workers      3, islands 2\n",
                           "  best         trial 0, loss 0.1\n", "    batch = 32.5\n", "  running      trial 4, worker 1, for 1:05, at step 1: 4\n",
                           " evaluations per hour\n", "  left         6 of 10 evaluations, in about "}) {
    EXPECT_NE(runs.find(line), std::string::npos) << line << "is not in\n" << runs;
  }
  const std::string ended = status_text(folder, now, false);
  EXPECT_NE(ended.find("; not running\n"), std::string::npos) << ended;
  EXPECT_NE(ended.find("  not ended    trial 4, worker 1, at step 1: 4\n"), std::string::npos) << ended;
}

TEST(Status, OfASearchThatHasDoneNothing) {
  const fs::path folder = fresh_folder("no_trials");
  write_description(folder, small_space(), {.seconds = 60});
  const std::string text = status_text(folder, 0, true);
  EXPECT_EQ(text.find("search: 0 complete"), 0U) << text;
  EXPECT_EQ(text.find("best"), std::string::npos) << text;
  EXPECT_NE(text.find("  left         a run ends after 1:00\n"), std::string::npos) << text;
}

}  // namespace status_test
}  // namespace tw::search
