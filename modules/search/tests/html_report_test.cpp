// SPDX-License-Identifier: Apache-2.0
// The page: sound, self-contained, and honest about what it leaves out.
#include <gtest/gtest.h>

#include <tw/evolution/pareto.hpp>
#include <tw/search/report.hpp>

#include "ledgers.hpp"

namespace tw::search {
namespace html_report_test {

using namespace testing;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
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
  for (const char* external : {"http:", "https:", "src=", "href", "url(", "@import", "<link", "<img", "<iframe", "<object"}) {
    EXPECT_EQ(html.find(external), std::string::npos) << external;
  }
  // One script, which its number allows, and nothing else that runs.
  EXPECT_EQ(count_of(html, "<script"), 1U);
  const size_t at = html.find("script-src 'nonce-");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(html.find("<script nonce=\"" + html.substr(at + 18, 16) + "\">"), std::string::npos);
}

/// From its heading to the next one.
std::string section(const std::string& html, const std::string& heading) {
  const size_t begin = html.find("<h2>" + heading);
  if (begin == std::string::npos) return "";
  return html.substr(begin, html.find("<h2>", begin + 1) - begin);
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
  // Trial 1 has reported nothing, trial 0 once a number, once none: no curve. Two that count have slices; too few for a forest.
  EXPECT_EQ(section(html, "Learning curves"), "");
  EXPECT_EQ(count_of(section(html, "Slices"), "<svg"), 5U);
  EXPECT_EQ(section(html, "Importance"), "");
  EXPECT_EQ(section(html, "The two"), "");
  const std::string trials = section(html, "Trials");
  EXPECT_EQ(count_of(trials, "<tr>"), 6U);  // the head, too
  EXPECT_EQ(count_of(trials, "type=\"checkbox\""), 5U);
  EXPECT_NE(trials.find("not ended (1)"), std::string::npos);
  EXPECT_NE(trials.find("Trials: 5. "), std::string::npos);
}

TEST(HtmlReport, ShowsWhatMatters) {
  const Ledger ledger = long_ledger(300, [](const auto& x) { return x[0] + (x[1] - 0.5) * (x[1] - 0.5); }, 3);
  const std::string html = html_report(ledger, unit_cube);
  expect_sound_page(html);
  const std::string importance = section(html, "Importance");
  EXPECT_LT(importance.find(">a<"), importance.find(">b<"));
  EXPECT_LT(importance.find(">b<"), importance.find(">c<"));
  EXPECT_NE(importance.find("has learnt from 300 trials"), std::string::npos);
  EXPECT_EQ(importance.find("That is little"), std::string::npos);
  const std::string slices = section(html, "Slices");
  EXPECT_EQ(count_of(slices, "<svg"), 3U);
  EXPECT_EQ(count_of(slices, "class=\"curve\""), 3U);
  EXPECT_LT(slices.find(">a<"), slices.find(">b<"));
  EXPECT_LT(slices.find(">b<"), slices.find(">c<"));
  const std::string map = section(html, "The two");
  EXPECT_NE(map.find(">a<"), std::string::npos);
  EXPECT_NE(map.find(">b<"), std::string::npos);
  EXPECT_EQ(map.find(">c<"), std::string::npos);
  EXPECT_EQ(count_of(map, "<rect"), 900U);
  EXPECT_EQ(count_of(map, "<circle"), 300U);
}

TEST(HtmlReport, SaysThatTheForestKnowsLittle) {
  CounterRng random(6, 0);
  const Ledger ledger = long_ledger(300, [&](const auto&) { return random.below(1000); }, 3);
  EXPECT_NE(html_report(ledger, unit_cube).find("That is little"), std::string::npos);
}

TEST(HtmlReport, SaysWhatBreedsAndWhy) {
  Ledger ledger = long_ledger(30, [](const auto& x) { return x[0]; }, 3);
  EXPECT_EQ(html_report(ledger, unit_cube).find("proposed by"), std::string::npos);
  ledger.propagator_reason = "tpe: few are <alike>";
  EXPECT_NE(html_report(ledger, unit_cube).find("proposed by tpe: few are &lt;alike&gt;."), std::string::npos);
}

/// x against (1 - x)^2, of which b takes something away: of 300 trials those with the least b for their x are on the front.
TEST(HtmlReport, DrawsTheFrontOfSeveralObjectives) {
  Ledger ledger = long_ledger(300, [](const auto& x) { return x[0]; }, 3);
  EXPECT_EQ(section(html_report(ledger, unit_cube), "Front"), "");
  ledger.objectives = {"error", "<s>"};
  std::vector<Individual> all;
  for (LedgerEntry& entry : ledger.trials) {
    const double x = entry.individual.values[0];
    entry.individual.objectives = {x, (1 - x) * (1 - x) + entry.individual.values[1]};
    all.push_back(entry.individual);
  }
  const std::string html = html_report(ledger, unit_cube);
  expect_sound_page(html);
  const std::string front = section(html, "Front");
  const std::vector<const Individual*> expected = front_of(all);
  EXPECT_GT(expected.size(), 5U);
  EXPECT_EQ(count_of(front, "<tr>"), 1 + expected.size());
  for (const Individual* each : expected) EXPECT_NE(front.find("<td>" + std::to_string(each->trial) + "</td>"), std::string::npos);
  EXPECT_EQ(count_of(front, "<svg"), 2U);
  EXPECT_EQ(count_of(front, "class=\"curve\""), 1U);
  EXPECT_NE(front.find("&lt;s&gt;"), std::string::npos);
  // Of either objective 19 of 20 trials lie in the chart.
  EXPECT_GE(count_of(front, "<circle"), 270U);
}

TEST(HtmlReport, ListsValuesOfConstraints) {
  Ledger ledger = long_ledger(3, [](const auto& x) { return x[0]; }, 3);
  EXPECT_EQ(html_report(ledger, unit_cube).find("constraint"), std::string::npos);
  ledger.trials[1].constraints = {-2, 0.75};
  const std::string trials = section(html_report(ledger, unit_cube), "Trials");
  EXPECT_NE(trials.find("constraint 2"), std::string::npos);
  EXPECT_EQ(count_of(trials, "<td>-2</td><td>0.75</td>"), 1U);
  EXPECT_EQ(count_of(trials, "<td></td><td></td>"), 2U) << "of the others nothing is known";
}

TEST(HtmlReport, DrawsLearningCurves) {
  Ledger ledger = long_ledger(400, [](const auto& x) { return x[0]; }, 3);
  for (LedgerEntry& entry : ledger.trials) {
    const int64_t trial = entry.individual.trial;
    if (trial % 2 == 0) entry.individual.state = TrialState::pruned;
    if (trial % 10 == 9) continue;
    for (int64_t step = 1; step <= 200; ++step) entry.reports.push_back({trial, step, step == 7 ? none : entry.individual.loss + 1.0 / step});
  }
  const std::string curves = section(html_report(ledger, unit_cube), "Learning curves");
  EXPECT_EQ(count_of(curves, "<polyline"), 300U);
  EXPECT_NE(curves.find("300 of 360, thinned out: the best 60"), std::string::npos);
  EXPECT_NEAR(count_of(curves, "trial faint"), 300 * 5 / 9, 30);  // by chance sqrt(300 5/9 4/9) = 9
  EXPECT_EQ(curves.find("nan"), std::string::npos);
  const size_t points = curves.find("points=\"") + 8;
  EXPECT_EQ(count_of(curves.substr(points, curves.find('"', points) - points), ","), 100U);
}

/// Those without a loss stay in the list, however many have one.
TEST(HtmlReport, ListsWhatFailed) {
  Ledger ledger = long_ledger(5000, [](const auto& x) { return x[0]; }, 3);
  for (LedgerEntry& entry : ledger.trials) {
    if (entry.individual.trial % 100 == 0) entry.individual = ended(entry.individual, TrialState::failed, infinity, 1);
  }
  const std::string trials = section(html_report(ledger, unit_cube), "Trials");
  EXPECT_EQ(count_of(trials, "<tr>"), 2001U);
  EXPECT_EQ(count_of(trials, "<td>failed</td>"), 50U);
  EXPECT_NE(trials.find("Trials: 2000 of 5000: the best"), std::string::npos);
}

TEST(HtmlReport, DrawsMembersThatTakeTurnsInRowsOfTheirOwn) {
  Ledger ledger = long_ledger(2, [](const auto& x) { return x[0]; }, 3);
  ledger.workers = 1;
  for (LedgerEntry& entry : ledger.trials) {
    entry.worker = 0;
    entry.begin = 1e9 + static_cast<double>(entry.individual.trial);
    entry.end = entry.last_activity = entry.begin + 3;
    entry.pauses = {{entry.begin + 1, entry.begin + 2}};
  }
  const std::string workers = section(html_report(ledger, unit_cube), "Workers");
  EXPECT_EQ(count_of(workers, "<title>trial 0"), 2U);
  EXPECT_EQ(count_of(workers, "<title>trial 1"), 2U);
  EXPECT_NE(workers.find("are drawn in separate rows"), std::string::npos);
  const auto y_of = [&](const std::string& tip) {
    const size_t y = workers.rfind(" y=\"", workers.find(tip)) + 4;
    return workers.substr(y, workers.find('"', y) - y);
  };
  EXPECT_NE(y_of("<title>trial 0"), y_of("<title>trial 1"));
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

/// However many parameters there are: 60 of each trial's are some 1,000 bytes, and about 9,000 marks have tips.
TEST(HtmlReport, StaysSmallWithManyParameters) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 60; ++i) parameters.push_back(real("parameter " + std::to_string(i), 0, 1));
  const Space space(parameters);
  Ledger ledger = long_ledger(6000, [](const auto& x) { return x[0] + x[1] * x[1]; }, parameters.size());
  for (LedgerEntry& entry : ledger.trials) {
    for (int64_t step = 1; step <= 10; ++step) entry.reports.push_back({entry.individual.trial, step, entry.individual.loss});
  }
  const std::string html = html_report(ledger, space);
  expect_sound_page(html);
  EXPECT_LT(html.size(), 7'000'000U);
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

TEST(HtmlReport, NamesTheSizesOfWorkers) {
  Ledger ledger = long_ledger(40, [](const auto& x) { return x[0] - 0.5; }, 3);
  ledger.worker_ranks = {1, 2, 1, 4};
  const std::string html = html_report(ledger, unit_cube);
  for (const char* lane : {">worker 0, ", ">worker 1 (2 ranks), ", ">worker 3 (4 ranks), "}) EXPECT_EQ(count_of(html, lane), 1U) << lane;
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

}  // namespace html_report_test
}  // namespace tw::search
