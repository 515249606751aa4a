// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <tw/algorithms/selection.hpp>

#include "bench_report.hpp"

namespace tw::tool {

/// Turns measurements into a selection: the fastest backend for each operation and size. Pure.
class Tuning {
 public:
  /// Ignores operations and backends that selections do not contain.
  void add(const Measurement& measurement);
  /// Each measured size stands for sizes up to a third of the way to the next one: up to twice its own if the next is four times as large. The last
  /// one stands for all larger sizes.
  algorithms::Selection selection() const;

 private:
  std::map<Collective, std::map<int64_t, std::map<double, std::string>>> times_;  // by operation, bytes and us: the backend
};

}  // namespace tw::tool
