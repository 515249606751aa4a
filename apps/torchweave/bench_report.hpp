// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>

#include "bench_figures.hpp"
#include "svg_chart.hpp"

namespace tw::tool {

/// The measurement of one operation, backend and size.
struct Measurement {
  Collective operation = Collective::none;
  std::string backend;
  int64_t bytes = 0;
  int rounds = 0;
  Times times;
  std::optional<Times> baseline = {};  ///< MPI called directly, in turns with this backend

  /// Above 1: the backend is faster.
  double ratio() const { return baseline->median_us / times.median_us; }
};

struct BenchReportOptions {
  int ranks = 1;
  int nodes = 1;
  bool compares = false;             ///< every measurement has a baseline
  std::filesystem::path json = {};   ///< empty: none
  std::filesystem::path chart = {};  ///< empty: none
};

/// Writes all measurements, on one rank: rows of a table and JSON lines as they arrive, and a chart at the end.
class BenchReport {
 public:
  /// @param table borrowed. @throws FileError if a file cannot be written
  BenchReport(std::ostream& table, BenchReportOptions options);

  void begin_operation(Collective operation);
  /// Prints why `operation` is not measured on `backend`.
  void skip(Collective operation, const std::string& backend, const std::string& why);
  /// @throws FileError
  void add(const Measurement& measurement);
  /// Adds a point to the chart's line of MPI called directly.
  void add_baseline(Collective operation, int64_t bytes, const Times& times);
  /// Writes the chart. @throws FileError
  void finish();

 private:
  std::ostream& table_;
  BenchReportOptions options_;
  std::ofstream json_;
  SvgChart chart_;
};

}  // namespace tw::tool
