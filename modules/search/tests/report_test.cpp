// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <tw/base/error.hpp>
#include <tw/base/random.hpp>
#include <tw/search/report.hpp>

#include "history.hpp"
#include "importance.hpp"
#include "unbroken_clock.hpp"

namespace tw::search {
namespace {

namespace fs = std::filesystem;
constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
const std::string nasty = "<b>&\"x";
const std::string message = "line one,\n\"two\" <script>alert('1')</script>";

Space small_space() {
  return {real(nasty, 1e-4, 1, log_scale), integer("layers", 1, 4), categorical("kind", {"a,b", "sgd"}), ordinal("batch", {16, 32.5}),
          real("momentum", 0, 1).when("kind", {"sgd"})};
}

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("report_test_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

Individual of(int64_t trial, std::vector<double> values, int worker, int island) {
  return {.trial = trial, .values = std::move(values), .worker = worker, .island = island};
}

Individual ended(Individual individual, TrialState state, double loss, double seconds) {
  individual.state = state;
  individual.loss = loss;
  individual.seconds = seconds;
  return individual;
}

/// Three workers on two islands: trials that are complete, pruned, failed, infeasible, and not ended at the second attempt.
fs::path write_journal(const std::string& name) {
  const fs::path folder = fresh_folder(name);
  JournalHeader header{.space = small_space().hash(), .seed = 1, .worker = 0, .islands = {2, 1}};
  const Individual first = of(0, {0.1, 2, 0, 1, none}, 0, 0);
  {
    JournalWriter journal(folder, header, 0);
    journal.start(first, false);
    journal.report(0, 1, 0.75);
    journal.report(0, 2, none);
    journal.end(ended(first, TrialState::complete, 0.1, 1.5), "");
    const Individual third = of(3, {0.2, 3, 1, 0, 0.9}, 0, 0);
    journal.start(third, false);
    journal.end(ended(third, TrialState::failed, infinity, 0.25), message);
    journal.write();
  }
  header.worker = 1;
  {
    JournalWriter journal(folder, header, 0);
    const Individual pruned = of(1, {1e-4, 1, 1, 0, 1.0 / 3}, 1, 0);
    journal.start(pruned, false);
    journal.end(ended(pruned, TrialState::pruned, 0.5, 0.125), "");
    const Individual lost = of(4, {0.5, 4, 0, 0, none}, 1, 0);
    journal.start(lost, false);
    journal.report(4, 1, 3);
    journal.start(lost, true);
    journal.report(4, 1, 4);
    journal.write();
  }
  header.worker = 2;
  {
    JournalWriter journal(folder, header, 0);
    const Individual infeasible = of(2, {0.3, 1, 0, 0, none}, 2, 1);
    journal.start(infeasible, false);
    journal.end(ended(infeasible, TrialState::infeasible, infinity, 0), "violates 'small'");
    journal.adopt(ended(first, TrialState::complete, 0.1, 1.5), 0);
    journal.write();
  }
  return folder;
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

/// Every tag is closed, in order. @return what is wrong
std::string problem_of(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    if (html.compare(at, 2, "<!") == 0) continue;
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag without an end";
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (count_of(tag, "\"") % 2 != 0 || tag.find('<') != std::string::npos) return "<" + tag + ">";
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != tag) {
      return "<" + tag + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

void expect_sound_page(const std::string& html) {
  EXPECT_EQ(problem_of(html), "");
  for (const char* external : {"http:", "https:", "src=", "href", "url(", "@import", "<script", "<link", "<img", "<iframe", "<object"}) {
    EXPECT_EQ(html.find(external), std::string::npos) << external;
  }
}

/// `n` trials on four workers, one after the other; each takes a second.
Ledger long_ledger(int64_t n, const std::function<double(const std::vector<double>&)>& loss, size_t parameters) {
  Ledger ledger{.epochs = 1, .workers = 4, .islands = 1, .next_trial = n};
  CounterRng random(5, 0);
  for (int64_t trial = 0; trial < n; ++trial) {
    std::vector<double> values;
    for (size_t i = 0; i < parameters; ++i) values.push_back(static_cast<double>(random.below(1 << 20)) / (1 << 20));
    const double found = loss(values);
    const double begin = 1e9 + static_cast<double>(trial / 4);
    ledger.trials.push_back({.individual = ended(of(trial, std::move(values), static_cast<int>(trial % 4), 0), TrialState::complete, found, 1),
                             .attempts = 1,
                             .worker = static_cast<int>(trial % 4),
                             .begin = begin,
                             .end = begin + 1,
                             .last_sign = begin + 1});
  }
  return ledger;
}

const Space unit_cube{real("a", 0, 1), real("b", 0, 1), real("c", 0, 1)};

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
  EXPECT_EQ(first.last_sign, first.end);
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
  const std::vector<std::string> rest{"2", "1", "", "0.1", "2", "a,b", "32.5", ""};
  EXPECT_EQ(std::vector<std::string>(rows[1].begin() + 10, rows[1].end()), rest);
  EXPECT_EQ(std::stod(rows[2][17]), 1.0 / 3);
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
    run(true, 8);
    journal.end(ended(member, TrialState::complete, 0.25, 1), "");
    journal.start(of(4, {0, 0, 0}, 0, 0), false);
    journal.note(Record::Kind::pause, 4);
    journal.write();
  }
  const Ledger ledger = read_ledger(folder, unit_cube);
  ASSERT_EQ(ledger.trials.size(), 2U);
  const LedgerEntry& member = ledger.trials[0];
  EXPECT_EQ(member.attempts, 2);
  EXPECT_EQ(member.losses, 1);
  EXPECT_EQ(member.individual.values, (std::vector<double>{0.4, 0.5, 0.6})) << "those at its end";
  ASSERT_EQ(member.copies.size(), 1U) << "those of the last time";
  EXPECT_EQ(member.copies[0].original, 8);
  EXPECT_EQ(member.copies[0].step, 1);
  const std::vector<Interrupted> interrupted = history_of(read_journal(folder)).interrupted;
  ASSERT_EQ(interrupted.size(), 1U);
  EXPECT_EQ(interrupted[0].losses, 0) << "it was paused";
  export_sqlite(ledger, unit_cube, folder / "trials.sqlite");
  EXPECT_EQ(answer(folder / "trials.sqlite", "SELECT trial, number, original, step, configuration FROM copies"),
            std::vector<std::string>{"3|0|8|1|a=0.4 b=0.5 c=0.6"});
}

TEST(HtmlReport, ShowsASmallSearch) {
  const Space space = small_space();
  const std::string html = html_report(read_ledger(write_journal("html"), space), space);
  expect_sound_page(html);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html.find("&lt;b&gt;&amp;&quot;x"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"), std::string::npos);
  for (int worker = 0; worker < 3; ++worker) EXPECT_EQ(count_of(html, ">worker " + std::to_string(worker) + ","), 1U);
  EXPECT_EQ(count_of(html, ">worker "), 3U);
  EXPECT_EQ(count_of(html, "class=\"trial\""), 2U);  // those that count
  for (const char* row :
       {"<td>complete</td><td>1</td>", "<td>not ended</td><td>1</td>", "<td>0</td><td></td><td>1</td>", "<td>1</td><td>0</td><td></td>"})
    EXPECT_NE(html.find(row), std::string::npos) << row;
  EXPECT_NE(html.find("violates &#39;small&#39;"), std::string::npos);
  EXPECT_EQ(html.find("hinned out"), std::string::npos);
}

TEST(HtmlReport, SaysWhatItLeavesOut) {
  const Ledger ledger = long_ledger(20000, [](const auto& x) { return x[0] + x[1] * x[1]; }, 3);
  const std::string html = html_report(ledger, unit_cube);
  expect_sound_page(html);
  EXPECT_EQ(count_of(html, ">worker "), 4U);
  EXPECT_NE(html.find("1000 of 20000, thinned out"), std::string::npos);
  EXPECT_NE(html.find("thinned out, one in 20 of 20000"), std::string::npos);
  EXPECT_NE(html.find("Thinned out: 20000 trials are drawn as"), std::string::npos);
  EXPECT_LT(html.size(), 4'000'000U);
}

TEST(HtmlReport, ManyIslandsAndWorkers) {
  Ledger ledger = long_ledger(400, [](const auto& x) { return x[0] - 0.5; }, 3);
  ledger.islands = 30;
  ledger.workers = 300;
  for (int i = 0; i < 200; ++i) ledger.migrations.push_back({.trial = i, .from = i % 30, .to = (i * 7 + 1) % 30});
  const std::string html = html_report(ledger, unit_cube);
  expect_sound_page(html);
  EXPECT_EQ(count_of(html, ">worker "), 300U);
  EXPECT_NE(html.find("Routes: "), std::string::npos);
}

TEST(HtmlReport, OddLosses) {
  const std::vector<std::vector<double>> cases{{}, {0}, {0, 0, 0}, {-1e308, 1e308}, {1e-300, 1e300}, {5e-324, 1}, {-3, -2, 1e9}, {1e-12, 1, 1e6}};
  for (const auto& losses : cases) {
    size_t next = 0;
    const Ledger ledger = long_ledger(static_cast<int64_t>(losses.size()), [&](const auto&) { return losses[next++]; }, 3);
    const std::string html = html_report(ledger, unit_cube);
    expect_sound_page(html);
    for (const char* bad : {"\"nan", "\"-nan", "\"inf", "\"-inf", ",nan", ",inf", ",-nan"}) EXPECT_EQ(html.find(bad), std::string::npos) << bad;
  }
}

TEST(Importance, OfTheOneParameterThatMatters) {
  const std::vector<std::function<double(const std::vector<double>&)>> functions{[](const auto& x) { return x[1]; },
                                                                                 [](const auto& x) { return (x[1] - 0.5) * (x[1] - 0.5); },
                                                                                 [](const auto& x) { return std::exp(30 * x[1]); }};
  for (const auto& function : functions) {
    const std::vector<double> shares = importance(long_ledger(2000, function, 3), unit_cube);
    ASSERT_EQ(shares.size(), 3U);
    EXPECT_LT(shares[0], 0.02);
    EXPECT_GT(shares[1], 0.95);
    EXPECT_LT(shares[2], 0.02);
  }
}

TEST(Importance, OfASumAndOfNoise) {
  const std::vector<double> sum = importance(long_ledger(5000, [](const auto& x) { return 2 * x[0] + x[1]; }, 3), unit_cube);
  EXPECT_NEAR(sum[0], 0.8, 0.05);
  EXPECT_NEAR(sum[1], 0.2, 0.05);
  const std::vector<double> noise =
      importance(long_ledger(60, [](const auto& x) { return std::fmod(1000 * (x[0] + x[1] + x[2]), 1); }, 3), unit_cube);
  for (const double share : noise) EXPECT_LT(share, 0.2);
}

TEST(Importance, OfChoicesStepsAndConditions) {
  const Space space{categorical("kind", {"a", "b", "c"}), real("step", 0, 1, Scale::linear, 0.5), real("only", 0, 1).when("kind", {"b"})};
  Ledger ledger = long_ledger(600, [](const auto&) { return 0; }, 3);
  for (LedgerEntry& entry : ledger.trials) {
    std::vector<double>& values = entry.individual.values;
    values = {std::floor(3 * values[0]), std::floor(3 * values[1]) / 2, values[2]};
    if (values[0] != 1) values[2] = none;
    entry.individual.loss = values[0] == 1 ? -1 : 1 + values[1];
  }
  const std::vector<double> shares = importance(ledger, space);
  EXPECT_GT(shares[0], 0.6);
  EXPECT_GT(shares[1], 0.1);
  EXPECT_LT(shares[1], 0.3);
  EXPECT_GT(shares[2], 0.6);  // by whether it exists
}

TEST(Importance, NeedsTrialsThatDiffer) {
  EXPECT_TRUE(importance(long_ledger(19, [](const auto& x) { return x[0]; }, 3), unit_cube).empty());
  EXPECT_TRUE(importance(long_ledger(100, [](const auto&) { return 1; }, 3), unit_cube).empty());
}

TEST(UnbrokenClock, LeavesOutBreaks) {
  Ledger ledger = long_ledger(8, [](const auto&) { return 1; }, 3);  // two seconds
  for (size_t i = 4; i < 8; ++i) {
    for (double* time : {&ledger.trials[i].begin, &ledger.trials[i].end, &ledger.trials[i].last_sign}) *time += 3600;
  }
  const UnbrokenClock clock(ledger);
  EXPECT_EQ(clock.breaks(), 1U);
  EXPECT_EQ(clock.left_out(), 3600);
  EXPECT_EQ(clock.total(), 2);
  EXPECT_EQ(clock.at(1e9 + 0.5), 0.5);
  EXPECT_EQ(clock.at(1e9 + 1000), 1);
  EXPECT_EQ(clock.at(1e9 + 3601.5), 1.5);
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

}  // namespace
}  // namespace tw::search
