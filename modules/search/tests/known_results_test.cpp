// SPDX-License-Identifier: Apache-2.0
#include "ledgers.hpp"
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <tw/base/error.hpp>
#include <tw/search/report.hpp>

#include "description.hpp"
#include "known_results.hpp"
#include "table.hpp"

namespace tw::search {
namespace known_results_test {

using namespace testing;
using tw::testing::message_of;

TEST(Table, FieldsMayHoldAnything) {
  EXPECT_EQ(rows_of_csv("a,b\r\n\"1,5\",\"say \"\"no\"\"\"\n\n,\"two\nlines\""),
            (std::vector<TextRow>{{"a", "b"}, {"1,5", "say \"no\""}, {"", "two\nlines"}}));
  EXPECT_TRUE(rows_of_csv("").empty());
}

TEST(KnownResults, ComeFromAnyTable) {
  const Space space{real("lr", 1e-4, 1), categorical("optimizer", {"sgd", "adam"}), real("momentum", 0, 1).when("optimizer", {"sgd"})};
  const std::string csv =
      "run,loss,parameter.lr,optimizer,momentum,state\n"
      "1,0.5,0.01,sgd,0.9,complete\n"
      "2,0.25,0.1,adam,,PRUNED\n"
      "3,0.125,0.1,sgd,,complete\n"     // has no momentum
      "4,0.125,10,adam,,complete\n"     // lr is too large
      "5,,0.1,adam,,complete\n"         // no loss
      "6,0.125,0.1,rms,,complete\n"     // another optimizer
      "7,0.125,0.1,adam,,failed\n"      // no result
      "8,0.75,1e-3,adam,0.5,complete";  // says too much
  const KnownResults known = known_results(results_in_csv(csv, space), space);
  EXPECT_EQ(known.skipped, 4);
  ASSERT_EQ(known.individuals.size(), 3U);
  const std::vector<double> losses{0.5, 0.25, 0.75};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(known.individuals[i].loss, losses[i]);
    EXPECT_EQ(known.individuals[i].trial, -1 - static_cast<int64_t>(i));
    EXPECT_TRUE(known.individuals[i].counts());
    EXPECT_TRUE(space.contains(known.individuals[i].values));
  }
  EXPECT_EQ(known.individuals[0].values, (std::vector<double>{0.01, 0, 0.9}));
  EXPECT_NE(message_of<Error>([&] { results_in_csv("lr,error\n1,2", space); }).find("'loss'"), std::string::npos);
}

TEST(KnownResults, HaveSeveralObjectives) {
  const Space space{real("lr", 0, 1)};
  const std::string csv =
      "lr,objective.seconds,error,loss\n"
      "0.5,2,0.25,9\n"
      "0.25,,0.125,9\n"  // says no seconds
      "0.75,1,0.5,9\n";
  const KnownResults known = known_results(results_in_csv(csv, space, {"error", "seconds"}), space);
  EXPECT_EQ(known.skipped, 1);
  ASSERT_EQ(known.individuals.size(), 2U);
  EXPECT_EQ(known.individuals[0].loss, 0.25);
  EXPECT_EQ(known.individuals[0].objectives, (std::vector<double>{0.25, 2}));
  EXPECT_EQ(known.individuals[1].objectives, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(message_of<Error>([&] { results_in_csv(csv, space, {"error", "bytes"}); }), "a table of results has a column 'bytes'");
}

/// The same from a journal as from the table that is made of it; of another space, what that has.
TEST(KnownResults, ComeFromAnotherSearch) {
  const fs::path folder = write_journal("known");
  EXPECT_NE(message_of<FileError>([&] { read_known_results(folder, small_space()); }).find("search.json"), std::string::npos);
  write_description(folder, small_space(), {});
  write_reports(folder, small_space());
  for (const fs::path& path : {folder, folder / "trials.csv"}) {
    const KnownResults known = read_known_results(path, small_space());
    ASSERT_EQ(known.individuals.size(), 2U) << path;
    EXPECT_EQ(known.skipped, 0) << path;
    EXPECT_TRUE(same_values(known.individuals[0].values, {0.1, 2, 0, 1, none})) << path;
    EXPECT_EQ(known.individuals[0].loss, 0.1) << path;
    EXPECT_EQ(known.individuals[1].loss, 0.5) << path;
    const KnownResults fewer = read_known_results(path, {integer("layers", 2, 3), ordinal("batch", {32.5, 64})});
    ASSERT_EQ(fewer.individuals.size(), 1U) << path;
    EXPECT_EQ(fewer.individuals[0].values, (std::vector<double>{2, 0})) << path;
    EXPECT_EQ(fewer.skipped, 1) << path;
  }
  std::ofstream(folder / "other.csv") << "a,b\n1,2\n";
  EXPECT_NE(message_of<FileError>([&] { read_known_results(folder / "other.csv", small_space()); }).find("other.csv"), std::string::npos);
  EXPECT_THROW(read_known_results(folder / "none.csv", small_space()), FileError);
}

TEST(Description, ReadsBack) {
  const fs::path folder = fresh_folder("description");
  Space space = small_space();
  write_description(folder, space, {.evaluations = 7, .target = 0.5});
  const Description read = read_description(folder);
  EXPECT_EQ(read.space.hash(), space.hash());
  EXPECT_EQ(read.evaluations, 7);
  EXPECT_EQ(read.seconds, infinity);
  EXPECT_EQ(read.target, 0.5);
  Space starting{real("x", 1e-5, 1e5, log_scale).starting_at("2"), real("y", 0, 1, Scale::linear, 0.25)};
  starting.start_at({{"x", "0.1"}, {"y", "0.25"}});
  starting.start_at({{"y", "1"}});
  ASSERT_EQ(starting.starts().size(), 3U);
  write_description(folder, starting, {.seconds = 9});
  EXPECT_EQ(read_description(folder).space.starts(), starting.starts());
  EXPECT_EQ(read_description(folder).space.hash(), starting.hash());
  EXPECT_EQ(read_description(folder).seconds, 9);
  std::ofstream(folder / "search.json") << "{";
  EXPECT_THROW(read_description(folder), FileError);
}

}  // namespace known_results_test
}  // namespace tw::search
