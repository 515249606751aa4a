// SPDX-License-Identifier: Apache-2.0
#include "bench_report.hpp"

#include <iomanip>
#include <nlohmann/json.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/number_text.hpp>

namespace tw::tool {
namespace {

void open(std::ofstream& file, const std::filesystem::path& path) {
  if (path.empty()) return;
  file.open(path, std::ios::trunc);
  if (!file) throw FileError(path, 0, "cannot be written");
}

void expect_written(std::ofstream& file, const std::filesystem::path& path) {
  file.flush();
  if (!file) throw FileError(path, 0, "cannot be written completely");
}

std::string place_text(const BenchReportOptions& options) {
  return concat(options.ranks, options.ranks == 1 ? " rank on " : " ranks on ", options.nodes, options.nodes == 1 ? " node" : " nodes");
}

}  // namespace

BenchReport::BenchReport(std::ostream& table, BenchReportOptions options)
    : table_(table),
      options_(std::move(options)),
      chart_("Collectives on " + place_text(options_) + ", float32", "message size", "bus bandwidth, GB/s") {
  open(json_, options_.json);
  if (!options_.chart.empty()) replace_file(options_.chart, "");  // fails now rather than at the end of a long run
}

void BenchReport::begin_operation(Collective operation) {
  table_ << '\n' << bench_name(operation) << ", " << place_text(options_) << '\n';
  table_ << "        size  backend                 median us  spread  alg. GB/s  bus GB/s" << (options_.compares ? "  MPI's us    ratio" : "")
         << std::endl;
}

void BenchReport::skip(Collective operation, const std::string& backend, const std::string& why) {
  table_ << "           -  " << std::left << std::setw(22) << backend << "  no " << bench_name(operation) << ": " << why << std::right << std::endl;
}

void BenchReport::add(const Measurement& measurement) {
  const auto [algorithm_gbps, bus_gbps] = bandwidth(measurement.operation, measurement.bytes, options_.ranks, measurement.times.median_us);
  const bool has_bandwidth = measurement.bytes > 0;
  table_ << std::setw(12) << size_text(measurement.bytes) << "  " << std::left << std::setw(22) << measurement.backend << std::right << std::setw(11)
         << fixed_text(measurement.times.median_us, 2) << std::setw(8) << fixed_text(measurement.times.spread, 2) << std::setw(11)
         << (has_bandwidth ? fixed_text(algorithm_gbps, 3) : "-") << std::setw(10) << (has_bandwidth ? fixed_text(bus_gbps, 3) : "-");
  if (measurement.baseline)
    table_ << std::setw(10) << fixed_text(measurement.baseline->median_us, 2) << std::setw(9) << fixed_text(measurement.ratio(), 2);
  table_ << std::endl;

  const auto x = static_cast<double>(measurement.bytes);
  chart_.add(bench_name(measurement.operation), measurement.backend, x, bus_gbps);
  if (!json_.is_open()) return;
  nlohmann::ordered_json line{{"benchmark", "comm/" + bench_name(measurement.operation)},
                              {"backend", measurement.backend},
                              {"bytes", measurement.bytes},
                              {"ranks", options_.ranks},
                              {"nodes", options_.nodes},
                              {"median_us", measurement.times.median_us},
                              {"spread", measurement.times.spread},
                              {"algorithm_gbps", algorithm_gbps},
                              {"bus_gbps", bus_gbps},
                              {"rounds", measurement.rounds}};
  if (measurement.baseline) {
    line["baseline"] = "mpi";
    line["baseline_us"] = measurement.baseline->median_us;
    line["ratio"] = measurement.ratio();
  }
  json_ << line << '\n';
  expect_written(json_, options_.json);
}

void BenchReport::add_baseline(Collective operation, int64_t bytes, const Times& times) {
  chart_.add(bench_name(operation), "MPI called directly", static_cast<double>(bytes),
             bandwidth(operation, bytes, options_.ranks, times.median_us).bus_gbps);
}

void BenchReport::finish() {
  if (!options_.chart.empty()) replace_file(options_.chart, chart_.draw());
}

}  // namespace tw::tool
