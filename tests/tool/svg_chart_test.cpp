// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "svg_chart.hpp"

namespace {

using tw::tool::SvgChart;

/// Words in the drawing, with the room they take.
struct Label {
  double left;
  double right;
  double top;
  double bottom;
  std::string words;
};

// Those that are not turned. DejaVu Sans, which is among the widest, takes about 0.6 of the font size a character, bold 0.7.
std::vector<Label> labels_of(const std::string& svg) {
  static const std::regex text("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" text-anchor=\"(\\w+)\"([^>]*)>([^<]*)</text>");
  static const std::regex size("font-size=\"([0-9]+)\"");
  std::vector<Label> labels;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), text); it != std::sregex_iterator(); ++it) {
    const std::string more = (*it)[4];
    if (more.find("rotate") != std::string::npos) continue;
    std::smatch match;
    const double pixels = std::regex_search(more, match, size) ? std::stod(match[1]) : 12;
    const std::string words = (*it)[5];
    const double width = pixels * (more.find("bold") != std::string::npos ? 0.7 : 0.6) * static_cast<double>(words.size());
    const double x = std::stod((*it)[1]);
    const double y = std::stod((*it)[2]);
    const double left = (*it)[3] == "start" ? x : (*it)[3] == "end" ? x - width : x - width / 2;
    labels.push_back({left, left + width, y - pixels, y, words});
  }
  return labels;
}

void expect_no_overlap(const std::string& svg) {
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"")));
  const auto labels = labels_of(svg);
  ASSERT_FALSE(labels.empty());
  for (const Label& a : labels) {
    EXPECT_TRUE(a.left >= 0 && a.top >= 0 && a.right <= std::stod(size[1]) && a.bottom <= std::stod(size[2])) << a.words << " leaves the picture";
    for (const Label& b : labels) {
      if (&a == &b) continue;
      EXPECT_FALSE(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) << a.words << " overlaps " << b.words;
    }
  }
}

std::set<std::string> words_of(const std::string& svg) {
  std::set<std::string> words;
  for (const Label& label : labels_of(svg)) words.insert(label.words);
  return words;
}

// The points of every line, in the order in which they are drawn.
std::vector<std::vector<std::pair<double, double>>> lines_of(const std::string& svg) {
  static const std::regex polyline("<polyline[^>]* points=\"([^\"]*)\"");
  static const std::regex point("([0-9.]+),([0-9.]+)");
  std::vector<std::vector<std::pair<double, double>>> lines;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), polyline); it != std::sregex_iterator(); ++it) {
    const std::string points = (*it)[1];
    lines.emplace_back();
    for (auto p = std::sregex_iterator(points.begin(), points.end(), point); p != std::sregex_iterator(); ++p) {
      lines.back().emplace_back(std::stod((*p)[1]), std::stod((*p)[2]));
    }
  }
  return lines;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

SvgChart make_chart() { return {"title", "message size", "bus bandwidth, GB/s"}; }

// As `torchweave bench comm` draws it: many operations, sizes over seven decades.
SvgChart make_full_chart(double fastest) {
  SvgChart chart = make_chart();
  for (const char* panel : {"broadcast", "allreduce", "reduce", "allgather", "reduce_scatter", "alltoall", "ping_pong"}) {
    for (const char* line : {"shared_memory", "shared_memory/in_place", "mpi", "MPI called directly"}) {
      for (double bytes = 8; bytes <= 64 << 20; bytes *= 4) chart.add(panel, line, bytes, fastest * bytes / (bytes + 20000));
    }
  }
  return chart;
}

TEST(SvgChart, APowerLawIsStraightOnLogarithmicAxes) {
  SvgChart chart = make_chart();
  for (const double bytes : {16.0, 256.0, 4096.0, 65536.0}) chart.add("allreduce", "mpi", bytes, std::sqrt(bytes) / 100);  // 0.04 to 2.56
  const auto lines = lines_of(chart.draw());
  ASSERT_EQ(lines.size(), 1U);
  const auto& points = lines[0];
  ASSERT_EQ(points.size(), 4U);
  for (size_t i = 2; i < points.size(); ++i) {  // equal steps; the file has one digit after the point
    EXPECT_NEAR(points[i].first - points[i - 1].first, points[1].first - points[0].first, 0.21);
    EXPECT_NEAR(points[i].second - points[i - 1].second, points[1].second - points[0].second, 0.21);
  }
  EXPECT_GT(points[1].first, points[0].first);    // larger messages to the right
  EXPECT_LT(points[1].second, points[0].second);  // more bandwidth further up
}

TEST(SvgChart, APointLiesWhereTheTicksSay) {
  SvgChart chart = make_chart();
  chart.add("p", "mpi", 1024, 0.1);
  chart.add("p", "mpi", 1 << 20, 10);
  const std::string svg = chart.draw();
  const auto points = lines_of(svg).at(0);
  const auto find = [&](const std::string& words) {
    for (const Label& label : labels_of(svg)) {
      if (label.words == words) return label;
    }
    return Label{};  // at 0, where no point lies
  };
  const auto middle = [&](const std::string& words) { return (find(words).left + find(words).right) / 2; };
  EXPECT_NEAR(middle("1 KiB"), points[0].first, 0.11);
  EXPECT_NEAR(middle("1 MiB"), points[1].first, 0.11);
  EXPECT_NEAR(find("0.1").bottom - 4, points[0].second, 0.11);  // letters stand on their base line
  EXPECT_NEAR(find("10").bottom - 4, points[1].second, 0.11);
}

TEST(SvgChart, HasAPanelAnOperationAndALineABackend) {
  const std::string svg = make_full_chart(20).draw();
  EXPECT_EQ(lines_of(svg).size(), 7U * 4U);
  for (const auto& points : lines_of(svg)) EXPECT_EQ(points.size(), 12U);
  EXPECT_EQ(count(svg, ">reduce_scatter</text>"), 1);
  EXPECT_EQ(count(svg, ">shared_memory/in_place</text>"), 1);  // one legend
  EXPECT_EQ(count(svg, ">message size</text>"), 7);
  EXPECT_EQ(count(svg, "stroke=\"#d55e00\""), 8);  // that line, in every panel and in the legend
}

TEST(SvgChart, LabelsTheTicksWithUnitsAndDoesNotOverlap) {
  for (const double fastest : {0.00001, 0.02, 1.0, 20.0, 5e7}) {
    SCOPED_TRACE(fastest);
    const std::string svg = make_full_chart(fastest).draw();
    expect_no_overlap(svg);
    const auto words = words_of(svg);
    for (const char* tick : {"16 B", "256 B", "4 KiB", "64 KiB", "1 MiB", "16 MiB"}) EXPECT_EQ(words.count(tick), 1U) << tick;
  }
  const auto words = words_of(make_full_chart(20).draw());
  for (const char* tick : {"0.001", "0.01", "0.1", "1", "10", "100"}) EXPECT_EQ(words.count(tick), 1U) << tick;
}

TEST(SvgChart, NarrowRangesHaveTicksToo) {
  for (const double factor : {1.0, 1.5, 3.0, 40.0, 3000.0}) {
    SvgChart chart = make_chart();
    chart.add("allreduce", "mpi", 1024, 0.7);
    chart.add("allreduce", "mpi", 1024 * factor, 0.7 * factor);
    SCOPED_TRACE(factor);
    const std::string svg = chart.draw();
    expect_no_overlap(svg);
    EXPECT_GE(count(svg, "text-anchor=\"end\""), 2);  // y ticks
    EXPECT_EQ(words_of(svg).count("1 KiB"), 1U);      // x ticks
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

TEST(SvgChart, LeavesOutWhatHasNoLogarithm) {
  SvgChart chart = make_chart();
  for (const double value : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    chart.add("barrier", "mpi", value, 1);
    chart.add("barrier", "mpi", 8, value);
  }
  const std::string svg = chart.draw();
  EXPECT_EQ(svg.find("barrier"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find("title"), std::string::npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(SvgChart, EscapesWhatXmlWouldRead) {
  SvgChart chart("a < b & c > d", "x", "y");
  chart.add("p<q", "l&m", 8, 1);
  const std::string svg = chart.draw();
  EXPECT_NE(svg.find("a &lt; b &amp; c &gt; d"), std::string::npos);
  EXPECT_NE(svg.find("p&lt;q"), std::string::npos);
  EXPECT_NE(svg.find("l&amp;m"), std::string::npos);
}

TEST(SvgChart, IsTheSameEveryTime) { EXPECT_EQ(make_full_chart(20).draw(), make_full_chart(20).draw()); }

}  // namespace
