// SPDX-License-Identifier: Apache-2.0
// What is told of a search: from its journal, as CSV, in a database, and into files beside it.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tw/base/error.hpp>
#include <tw/search/report.hpp>

#include "history.hpp"
#include "ledgers.hpp"

namespace tw::search {
namespace ledger_test {

using namespace testing;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::vector<std::string>> parsed_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& field = rows.back().back();
    if (quoted && text.compare(i, 2, "\"\"") == 0) {
      field += text[i++];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == ',') {
      rows.back().emplace_back();
    } else if (!quoted && text.compare(i, 2, "\r\n") == 0) {
      rows.push_back({""});
      ++i;
    } else {
      field += text[i];
    }
  }
  rows.pop_back();
  return rows;
}

/// What a query gives, each row as "a|b|c"; NULL is "-".
std::vector<std::string> answer(const fs::path& path, const char* query) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  std::vector<std::string> rows;
  const auto take = [](void* to, int columns, char** texts, char**) {
    std::string row;
    for (int i = 0; i < columns; ++i) row += std::string(i == 0 ? "" : "|") + (texts[i] != nullptr ? texts[i] : "-");
    static_cast<std::vector<std::string>*>(to)->push_back(row);
    return 0;
  };
  char* problem = nullptr;
  EXPECT_EQ(sqlite3_exec(database, query, take, &rows, &problem), SQLITE_OK) << problem;
  sqlite3_free(problem);
  sqlite3_close(database);
  return rows;
}

TEST(Ledger, SaysWhatBecameOfEachTrial) {
  const Ledger ledger = read_ledger(write_journal("ledger"), small_space());
  ASSERT_EQ(ledger.trials.size(), 5U);
  EXPECT_EQ(ledger.workers, 3);
  EXPECT_EQ(ledger.islands, 2);
  EXPECT_EQ(ledger.epochs, 1);
  const LedgerEntry& first = ledger.trials[0];
  EXPECT_EQ(first.individual.loss, 0.1);
  EXPECT_EQ(first.individual.values[3], 1);
  ASSERT_EQ(first.reports.size(), 2U);
  EXPECT_EQ(first.reports[0].value, 0.75);
  EXPECT_LE(first.begin, first.end);
  EXPECT_EQ(first.last_activity, first.end);
  EXPECT_EQ(ledger.trials[2].individual.island, 1);
  EXPECT_EQ(ledger.trials[2].worker, 2);
  EXPECT_EQ(ledger.trials[3].message, message);
  const LedgerEntry& lost = ledger.trials[4];
  EXPECT_FALSE(lost.has_ended());
  EXPECT_EQ(lost.attempts, 2);
  ASSERT_EQ(lost.reports.size(), 1U);  // those of the first attempt are gone
  EXPECT_EQ(lost.reports[0].value, 4);
  EXPECT_TRUE(std::isnan(lost.end));
  ASSERT_EQ(ledger.migrations.size(), 1U);
  EXPECT_EQ(ledger.migrations[0].trial, 0);
  EXPECT_EQ(ledger.migrations[0].from, 0);
  EXPECT_EQ(ledger.migrations[0].to, 1);
  EXPECT_EQ(ledger.migrations[0].worker, 2);
}

TEST(Ledger, RefusesAnotherSpace) { EXPECT_THROW(read_ledger(write_journal("other"), unit_cube), FileError); }

/// Two objectives, of which one trial violates a constraint and has no second value; a trial of the journal before has not ended.
TEST(Ledger, CarriesObjectivesIntoTheExports) {
  using Rows = std::vector<std::string>;
  const fs::path folder = fresh_folder("objectives");
  {
    JournalWriter journal(folder, {.space = unit_cube.hash(), .islands = {1}, .objectives = {"error", "a,b"}, .ranks = {1}}, 0);
    for (int64_t trial = 0; trial < 3; ++trial) {
      Individual each = of(trial, {0.5, 0.25, 1}, 0, 0);
      journal.start(each, false);
      each = ended(each, trial == 1 ? TrialState::infeasible : TrialState::complete, 0.5, 1);
      each.objectives = {0.5, trial == 1 ? infinity : 7};
      each.violation = trial == 1 ? 0.75 : 0;
      if (trial < 2) journal.end(each, "");
    }
    journal.write();
  }
  const Ledger ledger = read_ledger(folder, unit_cube);
  const auto rows = parsed_csv(to_csv(ledger, unit_cube));
  const auto from_violation = [&](size_t row) { return std::vector<std::string>(rows[row].begin() + 13, rows[row].begin() + 19); };
  EXPECT_EQ(from_violation(0), (std::vector<std::string>{"violation", "ranks", "front", "objective.error", "objective.a,b", "parameter.a"}));
  EXPECT_EQ(from_violation(1), (std::vector<std::string>{"0", "1", "1", "0.5", "7", "0.5"}));
  EXPECT_EQ(from_violation(2), (std::vector<std::string>{"0.75", "1", "0", "0.5", "", "0.5"}));
  EXPECT_EQ(from_violation(3), (std::vector<std::string>{"", "1", "0", "", "", "0.5"}));
  export_sqlite(ledger, unit_cube, folder / "trials.sqlite");
  EXPECT_EQ(
      answer(folder / "trials.sqlite", "SELECT trial, name, value FROM objective_values JOIN objectives USING(objective) ORDER BY trial, objective"),
      (Rows{"0|error|0.5", "0|a,b|7.0", "1|error|0.5", "1|a,b|-"}));
  EXPECT_EQ(answer(folder / "trials.sqlite", "SELECT trial, violation, front FROM trials ORDER BY trial"), (Rows{"0|0.0|1", "1|0.75|0", "2|-|0"}));
  EXPECT_EQ(
      answer(folder / "trials.sqlite", "SELECT trial, \"objective.error\", \"objective.a,b\", front FROM trials_with_objectives ORDER BY trial"),
      (Rows{"0|0.5|7.0|1", "1|0.5|-|0", "2|-|-|0"}));
}

/// Three trials with two constraints: the first meets both, the second violates one, the third was not evaluated.
TEST(Ledger, CarriesConstraintsIntoTheExports) {
  using Rows = std::vector<std::string>;
  const fs::path folder = fresh_folder("constraints");
  {
    JournalWriter journal(folder, {.space = unit_cube.hash(), .islands = {1}, .ranks = {1}}, 0);
    const auto write = [&](int64_t trial, TrialState state, const std::vector<double>& constraints) {
      const Individual each = of(trial, {0.5, 0.25, 1}, 0, 0);
      journal.start(each, false);
      journal.end(ended(each, state, 0.5, 1), "", constraints);
    };
    write(0, TrialState::complete, {-1, 0});
    write(1, TrialState::infeasible, {-2, 0.75});
    write(2, TrialState::infeasible, {});
    journal.write();
  }
  const Ledger ledger = read_ledger(folder, unit_cube);
  const auto rows = parsed_csv(to_csv(ledger, unit_cube));
  const auto from_ranks = [&](size_t row) { return Rows(rows[row].begin() + 14, rows[row].begin() + 18); };
  EXPECT_EQ(from_ranks(0), (Rows{"ranks", "constraint.1", "constraint.2", "parameter.a"}));
  EXPECT_EQ(from_ranks(1), (Rows{"1", "-1", "0", "0.5"}));
  EXPECT_EQ(from_ranks(2), (Rows{"1", "-2", "0.75", "0.5"}));
  EXPECT_EQ(from_ranks(3), (Rows{"1", "", "", "0.5"}));
  export_sqlite(ledger, unit_cube, folder / "trials.sqlite");
  EXPECT_EQ(answer(folder / "trials.sqlite", "SELECT trial, number, value FROM constraint_values ORDER BY trial, number"),
            (Rows{"0|1|-1.0", "0|2|0.0", "1|1|-2.0", "1|2|0.75"}));
  EXPECT_EQ(answer(folder / "trials.sqlite", "SELECT trial, state, \"constraint.1\", \"constraint.2\" FROM trials_with_constraints ORDER BY trial"),
            (Rows{"0|complete|-1.0|0.0", "1|infeasible|-2.0|0.75", "2|infeasible|-|-"}));
}

TEST(Ledger, CarriesRanksIntoTheExports) {
  const fs::path folder = fresh_folder("ranks");
  Ledger ledger = long_ledger(2, [](const std::vector<double>&) { return 1.0; }, 3);
  ledger.worker_ranks = {2, 3};
  const auto rows = parsed_csv(to_csv(ledger, unit_cube));
  EXPECT_EQ(rows[0][14], "ranks");
  EXPECT_EQ(rows[1][14], "2");
  EXPECT_EQ(rows[2][14], "3");
  export_sqlite(ledger, unit_cube, folder / "trials.sqlite");
  EXPECT_EQ(answer(folder / "trials.sqlite", "SELECT trial, ranks, front FROM trials ORDER BY trial"), (std::vector<std::string>{"0|2|-", "1|3|-"}));
}

TEST(Csv, ReadsBack) {
  const Space space = small_space();
  const Ledger ledger = read_ledger(write_journal("csv"), space);
  const auto rows = parsed_csv(to_csv(ledger, space));
  ASSERT_EQ(rows.size(), 6U);
  const std::vector<std::string> head{"trial",
                                      "state",
                                      "loss",
                                      "seconds",
                                      "worker",
                                      "island",
                                      "epoch",
                                      "attempts",
                                      "begin",
                                      "end",
                                      "reports",
                                      "migrations",
                                      "message",
                                      "violation",
                                      "ranks",
                                      "parameter." + nasty,
                                      "parameter.layers",
                                      "parameter.kind",
                                      "parameter.batch",
                                      "parameter.momentum"};
  EXPECT_EQ(rows[0], head);
  for (const auto& row : rows) ASSERT_EQ(row.size(), head.size());
  const std::vector<std::string> first{"0", "complete", "0.1", "1.5", "0", "0", "0", "1"};
  EXPECT_EQ(std::vector<std::string>(rows[1].begin(), rows[1].begin() + 8), first);
  EXPECT_EQ(std::stod(rows[1][8]), ledger.trials[0].begin);
  EXPECT_EQ(std::stod(rows[1][9]), ledger.trials[0].end);
  const std::vector<std::string> rest{"2", "1", "", "0", "1", "0.1", "2", "a,b", "32.5", ""};
  EXPECT_EQ(std::vector<std::string>(rows[1].begin() + 10, rows[1].end()), rest);
  EXPECT_EQ(std::stod(rows[2][19]), 1.0 / 3);
  EXPECT_EQ(rows[4][1], "failed");
  EXPECT_EQ(rows[4][2], "");
  EXPECT_EQ(rows[4][12], message);
  EXPECT_EQ(rows[5][1], "running");
  EXPECT_EQ(rows[5][3], "");
  EXPECT_EQ(rows[5][9], "");
}

TEST(Sqlite, AnswersQueries) {
  const Space space = small_space();
  const fs::path folder = write_journal("sqlite");
  const fs::path path = folder / "trials.sqlite";
  std::ofstream(path) << "something else";
  export_sqlite(read_ledger(folder, space), space, path);
  using Rows = std::vector<std::string>;
  EXPECT_EQ(answer(path, "SELECT trial, state, loss, seconds, worker, island, attempts, ended IS NULL, message IS NULL FROM trials ORDER BY trial"),
            (Rows{"0|complete|0.1|1.5|0|0|1|0|1", "1|pruned|0.5|0.125|1|0|1|0|1", "2|infeasible|-|0.0|2|1|1|0|0", "3|failed|-|0.25|0|0|1|0|0",
                  "4|running|-|-|1|0|2|1|1"}));
  EXPECT_EQ(answer(path, "SELECT message FROM trials WHERE state = 'failed'"), Rows{message});
  EXPECT_EQ(
      answer(path, "SELECT name, kind, low, high, scale, step, choices, parent, allowed FROM parameters ORDER BY parameter"),
      (Rows{nasty + "|real|0.0001|1.0|logarithmic|-|-|-|-", "layers|integer|1.0|4.0|linear|-|-|-|-", "kind|categorical|-|-|-|-|[\"a,b\",\"sgd\"]|-|-",
            "batch|ordinal|-|-|-|-|[\"16\",\"32.5\"]|-|-", "momentum|real|0.0|1.0|linear|-|-|kind|[\"sgd\"]"}));
  EXPECT_EQ(answer(path, "SELECT name, number, text FROM trial_values JOIN parameters USING(parameter) WHERE trial = 0 ORDER BY parameter"),
            (Rows{nasty + "|0.1|0.1", "layers|2.0|2", "kind|-|a,b", "batch|32.5|32.5"}));
  EXPECT_EQ(answer(path, "SELECT trial, number, step, value FROM reports ORDER BY trial, number"), (Rows{"0|0|1|0.75", "0|1|2|-", "4|0|1|4.0"}));
  EXPECT_EQ(answer(path, "SELECT trial, from_island, to_island, worker FROM migrations"), Rows{"0|0|1|2"});
  EXPECT_EQ(answer(path, "PRAGMA integrity_check"), Rows{"ok"});
}

/// A member of a population that began, paused, copied another, was lost while it ran, began again, and copied once more.
TEST(Ledger, KnowsPausesAndCopies) {
  const fs::path folder = fresh_folder("copies");
  {
    JournalWriter journal(folder, {.space = unit_cube.hash(), .islands = {1}}, 0);
    Individual member = of(3, {0.1, 0.2, 0.3}, 0, 0);
    const auto run = [&](bool again, int64_t original) {
      journal.start(member, again);
      journal.report(3, 1, 0.5);
      journal.note(Record::Kind::pause, 3);
      journal.note(Record::Kind::resume, 3);
      journal.copy(of(3, {0.4, 0.5, 0.6}, 0, 0), 1, original);
      journal.report(3, 2, 0.25);
    };
    run(false, 7);
    journal.record_loss(3, Blame::sole);
    run(true, 7);
    journal.record_loss(3, Blame::shared);
    run(true, 8);
    journal.end(ended(member, TrialState::complete, 0.25, 1), "");
    journal.start(of(4, {0, 0, 0}, 0, 0), false);
    journal.note(Record::Kind::pause, 4);
    journal.write();
  }
  const Ledger ledger = read_ledger(folder, unit_cube);
  ASSERT_EQ(ledger.trials.size(), 2U);
  const LedgerEntry& member = ledger.trials[0];
  EXPECT_EQ(member.attempts, 3);
  EXPECT_EQ(member.losses, 2);
  EXPECT_EQ(member.sole_losses, 1);
  EXPECT_EQ(member.blame, Blame::shared);
  EXPECT_EQ(member.individual.values, (std::vector<double>{0.4, 0.5, 0.6})) << "those at its end";
  ASSERT_EQ(member.copies.size(), 1U) << "those of the last time";
  EXPECT_EQ(member.copies[0].original, 8);
  EXPECT_EQ(member.copies[0].step, 1);
  ASSERT_EQ(member.pauses.size(), 1U) << "likewise";
  EXPECT_LE(member.begin, member.pauses[0].from);
  EXPECT_LE(member.pauses[0].from, member.pauses[0].to);
  ASSERT_EQ(ledger.trials[1].pauses.size(), 1U);
  EXPECT_TRUE(std::isnan(ledger.trials[1].pauses[0].to));
  const std::vector<Interrupted> interrupted = history_of(read_journal(folder)).interrupted;
  ASSERT_EQ(interrupted.size(), 1U);
  EXPECT_FALSE(interrupted[0].was_in_flight) << "it was paused";
  export_sqlite(ledger, unit_cube, folder / "trials.sqlite");
  EXPECT_EQ(answer(folder / "trials.sqlite", "SELECT trial, number, original, step, configuration FROM copies"),
            std::vector<std::string>{"3|0|8|1|a=0.4 b=0.5 c=0.6"});
}

TEST(WriteReports, BesideTheJournal) {
  const fs::path folder = write_journal("write");
  const Space space = small_space();
  write_reports(folder, space);
  write_reports(folder, space);  // again, in place of the first ones
  const Ledger ledger = read_ledger(folder, space);
  EXPECT_EQ(content_of(folder / "report.html"), html_report(ledger, space));
  EXPECT_EQ(content_of(folder / "trials.csv"), to_csv(ledger, space));
  EXPECT_EQ(answer(folder / "trials.sqlite", "SELECT count(*) FROM trials"), std::vector<std::string>{"5"});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 6);
  EXPECT_THROW(write_reports(folder / "missing", space), Error);
}

TEST(WriteReports, SaysWhatCannotBeReplaced) {
  const fs::path folder = write_journal("refused");
  for (const char* name : {"trials.csv", "trials.sqlite"}) {
    fs::create_directories(folder / name / "inside");
    try {
      write_reports(folder, small_space());
      FAIL() << "nothing thrown";
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    fs::remove_all(folder / name);
  }
  for (const auto& entry : fs::directory_iterator(folder)) EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
}

}  // namespace ledger_test
}  // namespace tw::search
