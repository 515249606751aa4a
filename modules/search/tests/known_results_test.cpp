// SPDX-License-Identifier: Apache-2.0
#include "ledgers.hpp"
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/evolution/configuration.hpp>
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
  EXPECT_EQ(rows_of_csv("\xEF\xBB\xBFloss\n1"), (std::vector<TextRow>{{"loss"}, {"1"}})) << "as some programs mark UTF-8";
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
    EXPECT_TRUE(known.individuals[i].has_comparable_loss());
    EXPECT_TRUE(space.contains(known.individuals[i].values));
  }
  EXPECT_EQ(known.individuals[0].values, (std::vector<double>{0.01, 0, 0.9}));
  EXPECT_NE(message_of<Error>([&] { results_in_csv("lr,error\n1,2", space); }).find("'loss'"), std::string::npos);
}

TEST(KnownResults, KeepTheConstraintsOfTheSpace) {
  Space space{real("x", 0, 1)};
  space.require("x is small", [](const Configuration& c) { return c.real("x") < 0.5; });
  const KnownResults known = known_results(results_in_csv("loss,x\n1,0.25\n0,0.75\n", space), space);
  EXPECT_EQ(known.skipped, 1);
  ASSERT_EQ(known.individuals.size(), 1U);
  EXPECT_EQ(known.individuals[0].loss, 1);
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
  EXPECT_EQ(message_of<Error>([&] { results_in_csv(csv, space, {"error", "bytes"}); }), "a table of results must have a column 'bytes'");
}

/// Parameters and objectives that are called like a column that each trials.csv has keep their own values.
TEST(KnownResults, TakeNoColumnOfTheTableForAParameter) {
  const std::vector<std::string> names{"trial", "state", "loss",    "seconds",    "worker",  "island",    "epoch", "attempts",
                                       "begin", "end",   "reports", "migrations", "message", "violation", "ranks", "front"};
  std::vector<Parameter> parameters;
  std::vector<double> values;
  for (const std::string& name : names) {
    parameters.push_back(real(name, 0, 100));
    values.push_back(20.5 + static_cast<double>(values.size()));
  }
  const Space space{parameters};
  Ledger ledger = long_ledger(1, [](const auto&) { return 0.25; }, names.size());
  ledger.trials[0].individual.values = values;
  for (const ObjectiveNames& objectives : {ObjectiveNames{}, ObjectiveNames{"seconds", "loss"}}) {
    ledger.objectives = objectives;
    if (!objectives.empty()) ledger.trials[0].individual.objectives = {0.25, 0.75};
    const std::string csv = to_csv(ledger, space);
    const KnownResults known = known_results(results_in_csv(csv, space, objectives), space);
    ASSERT_EQ(known.individuals.size(), 1U) << csv;
    EXPECT_EQ(known.individuals[0].values, values);
    EXPECT_EQ(known.individuals[0].loss, 0.25);
    EXPECT_EQ(known.individuals[0].objectives, ledger.trials[0].individual.objectives);
    // One that the search did not have: left out, not taken from another column.
    const Space fewer{real("x", 0, 1)};
    const Space more{real("x", 0, 1), real("epoch", 0, 100)};
    ledger.trials[0].individual.values = {0.5};
    const std::string without = to_csv(ledger, fewer);
    ledger.trials[0].individual.values = values;
    EXPECT_EQ(known_results(results_in_csv(without, more, objectives), more).skipped, 1);
    const std::string numbered = "," + without.substr(0, without.find('\n') + 1) + "0," + without.substr(without.find('\n') + 1);
    EXPECT_EQ(known_results(results_in_csv(numbered, more, objectives), more).skipped, 1) << "with a column of row numbers before it";
  }
}

TEST(KnownResults, RefuseAColumnThatIsBothALossAndAParameter) {
  const auto refusal = [](const std::string& csv, const std::string& name) {
    return message_of<Error>([&] { results_in_csv(csv, {real(name, 0, 9)}); });
  };
  EXPECT_EQ(refusal("loss\n1\n", "loss"), "the column 'loss' is the loss; call the column of the parameter 'parameter.loss'");
  EXPECT_EQ(refusal("loss,state\n1,complete\n", "state"),
            "the column 'state' is the trial's state; call the column of the parameter 'parameter.state'");
  EXPECT_EQ(results_in_csv("loss,epoch\n1,5\n", {real("epoch", 0, 9)})[0].texts, (NamedTexts{{"epoch", "5"}})) << "a table made by hand";
}

TEST(KnownResults, HaveChoicesThatAreTheEmptyText) {
  const Space space{categorical("suffix", {"a", ""})};
  const KnownResults known = known_results(results_in_csv("loss,suffix\n1,\n2,a\n", space), space);
  ASSERT_EQ(known.individuals.size(), 2U);
  EXPECT_EQ(known.individuals[0].values, (std::vector<double>{1}));
  EXPECT_EQ(known_results(results_in_csv("loss\n1\n", space), space).skipped, 1) << "there is no column";
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

TEST(Description, NeedsNamesInUtf8) {
  const std::string message = message_of<ContractError>([] { description_of({categorical("kind", {"a", "\xFF"})}, {}); });
  EXPECT_NE(message.find("parameters and choices must have names in UTF-8"), std::string::npos) << message;
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
  std::ofstream(folder / "search.json") << R"({"version": 2})";
  const std::string message = message_of<FileError>([&] { read_description(folder); });
  EXPECT_NE(message.find("its version is 2, only 1 is supported"), std::string::npos) << message;
  std::ofstream(folder / "search.json") << "{";
  EXPECT_THROW(read_description(folder), FileError);
}

}  // namespace known_results_test
}  // namespace tw::search
