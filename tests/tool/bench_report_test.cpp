// SPDX-License-Identifier: Apache-2.0
#include "bench_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <tw/base/error.hpp>

namespace {

using tw::Collective;
using tw::tool::BenchReport;
using tw::tool::Measurement;

/// Files of its own, removed at the end.
class BenchReportTest : public testing::Test {
 protected:
  BenchReportTest() : folder_(std::filesystem::path(testing::TempDir()) / "bench_report_test") { std::filesystem::create_directories(folder_); }
  ~BenchReportTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  std::ostringstream table_;

 private:
  std::filesystem::path folder_;
};

// 10 us for 1 MB over 4 ranks: 100 GB/s of the algorithm, 150 of the bus.
Measurement make_measurement() {
  return {.operation = Collective::allreduce, .backend = "shared_memory", .bytes = 1000000, .rounds = 20, .times = {10, 0.25}};
}

TEST_F(BenchReportTest, WritesOneObjectALineAtOnce) {
  BenchReport report(table_, {.ranks = 4, .nodes = 2, .json = file("a.jsonl")});
  report.add(make_measurement());
  Measurement barrier{.operation = Collective::barrier, .backend = "mpi", .bytes = 0, .rounds = 200, .times = {2, 0.5}};
  report.add(barrier);
  std::istringstream lines(read(file("a.jsonl")));  // while the report lives: a run that is broken off leaves what it has measured
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line), nlohmann::json::parse(R"({"benchmark": "comm/allreduce", "backend": "shared_memory", "bytes": 1000000,
      "ranks": 4, "nodes": 2, "median_us": 10.0, "spread": 0.25, "algorithm_gbps": 100.0, "bus_gbps": 150.0, "rounds": 20})"));
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["benchmark"], "comm/barrier");
  EXPECT_EQ(nlohmann::json::parse(line)["bus_gbps"], 0.0);
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(BenchReportTest, ComparesWithTheBaseline) {
  BenchReport report(table_, {.ranks = 4, .compares = true, .json = file("a.jsonl")});
  report.begin_operation(Collective::allreduce);
  Measurement measurement = make_measurement();
  measurement.baseline = {.median_us = 25, .spread = 0.1};
  report.add(measurement);
  const auto line = nlohmann::json::parse(read(file("a.jsonl")));
  EXPECT_EQ(line["baseline"], "mpi");
  EXPECT_EQ(line["baseline_us"], 25.0);
  EXPECT_EQ(line["ratio"], 2.5);
  EXPECT_NE(table_.str().find("ratio"), std::string::npos);
  EXPECT_NE(table_.str().find("25.00     2.50\n"), std::string::npos) << table_.str();
}

TEST_F(BenchReportTest, ColumnsStandBelowTheirHeads) {
  BenchReport report(table_, {.ranks = 4, .compares = true});
  report.begin_operation(Collective::reduce_scatter);
  Measurement measurement = make_measurement();
  measurement.operation = Collective::reduce_scatter;
  measurement.baseline = {.median_us = 25, .spread = 0.1};
  report.add(measurement);
  std::istringstream lines(table_.str());
  std::string empty;
  std::string title;
  std::string head;
  std::string row;
  std::getline(std::getline(std::getline(std::getline(lines, empty), title), head), row);
  EXPECT_EQ(title, "reduce_scatter, 4 ranks on 1 node");
  EXPECT_EQ(head.size(), row.size()) << head << '\n' << row;
  EXPECT_EQ(head.find("backend"), row.find("shared_memory")) << head << '\n' << row;
}

TEST_F(BenchReportTest, DrawsEveryBackendAndTheBaseline) {
  BenchReport report(table_, {.ranks = 4, .chart = file("a.svg")});
  report.add(make_measurement());
  report.add_baseline(Collective::allreduce, 1000000, {.median_us = 25});
  EXPECT_EQ(read(file("a.svg")), "");
  report.finish();
  const std::string svg = read(file("a.svg"));
  for (const char* words :
       {"Collectives on 4 ranks on 1 node, float32", "allreduce", "shared_memory", "MPI called directly", "bus bandwidth, GB/s"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
}

TEST_F(BenchReportTest, SaysWhyABackendIsNotMeasured) {
  BenchReport report(table_, {});
  report.skip(Collective::alltoall, "shared_memory", "goes through MPI");
  EXPECT_NE(table_.str().find("shared_memory           no alltoall: goes through MPI"), std::string::npos) << table_.str();
}

TEST_F(BenchReportTest, RefusesFilesThatCannotBeWrittenBeforeAnything) {
  EXPECT_THROW(BenchReport(table_, {.json = file("no/such/a.jsonl")}), tw::FileError);
  EXPECT_THROW(BenchReport(table_, {.chart = file("no/such/a.svg")}), tw::FileError);
}

TEST_F(BenchReportTest, SaysWhenADiskIsFull) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  BenchReport report(table_, {.json = "/dev/full", .chart = "/dev/full"});
  EXPECT_THROW(report.add(make_measurement()), tw::FileError);
  EXPECT_THROW(report.finish(), tw::FileError);
}

}  // namespace
