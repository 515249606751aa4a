// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <tw/algorithms/selection.hpp>

#include "bench_report.hpp"

namespace tw::tool {

/// Makes of what was measured a selection: of each operation and size the backend that was fastest. Pure.
class Tuning {
 public:
  /// What selections say nothing about is left out.
  void add(const Measurement& measurement);
  /// A size stands for those up to twice its own, where the next one is four times as large; the last one for all that are larger.
  algorithms::Selection selection() const;

 private:
  std::map<Collective, std::map<int64_t, std::map<double, std::string>>> times_;  // by operation, bytes and us: the backend
};

}  // namespace tw::tool
