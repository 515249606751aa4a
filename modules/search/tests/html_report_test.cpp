// SPDX-License-Identifier: Apache-2.0
// The page: sound, self-contained, and honest about what it leaves out.
#include <gtest/gtest.h>

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
  for (const char* external : {"http:", "https:", "src=", "href", "url(", "@import", "<script", "<link", "<img", "<iframe", "<object"}) {
    EXPECT_EQ(html.find(external), std::string::npos) << external;
  }
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
