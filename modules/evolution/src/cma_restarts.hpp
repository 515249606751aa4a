// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <tw/evolution/cma_es.hpp>

namespace tw::search {

/// A run, identified by a number. The settings follow from the number and the seed alone, so workers that see the number agree on them. Later
/// restarts have larger numbers; the bits are restart (25) | doublings of the last large run (5) | whether it is large (1).
struct CmaRunNumber {
  static constexpr int32_t max_doublings = 9;

  int32_t restart = 0;
  int32_t doublings = 0;
  bool large = false;

  int32_t packed() const noexcept { return restart << 6 | doublings << 1 | static_cast<int32_t>(large); }
  static CmaRunNumber unpacked(int32_t number) noexcept { return {number >> 6, number >> 1 & 31, (number & 1) != 0}; }
  /// Whether the number can identify a run: tags of other optimizers have other numbers.
  bool is_possible() const noexcept { return restart >= 0 && doublings <= std::min(restart, max_doublings) && (!large || doublings > 0); }
  bool operator==(const CmaRunNumber&) const = default;
};

/// Initial settings of a run.
struct CmaRunSettings {
  size_t lambda;
  double sigma;
  /// Draws the first mean.
  CounterRng random;
};

/// Large runs: lambda 2^doublings. Small runs, from the first restart on: lambda (2^doublings / 2)^(U^2) and sigma 10^(-2 U'), with U and U' uniform.
/// Ref: Hansen 2009.
CmaRunSettings settings_of(CmaRunNumber run, size_t lambda, double sigma, uint64_t seed);

/// Selects the next run from the number of evaluations that earlier runs used.
/// IPOP (Auger & Hansen 2005) doubles lambda at each restart. BIPOP (Hansen 2009) does the same in its large runs. It makes small runs while all
/// small ones together, including the first run, have used fewer evaluations than all large ones. A small run may use half of what the last large one
/// used.
class CmaRestarts {
 public:
  explicit CmaRestarts(CmaOptions::Restarts policy) : policy_(policy) {}

  /// Counts the evaluations of a finished run.
  void count(CmaRunNumber run, int64_t evaluations);
  CmaRunNumber after(CmaRunNumber run) const;
  /// Most evaluations that this run may use.
  int64_t limit(CmaRunNumber run) const;

 private:
  CmaOptions::Restarts policy_;
  int64_t small_ = 0;       // evaluations of all small runs
  int64_t large_ = 0;       // evaluations of all large runs
  int64_t last_large_ = 0;  // evaluations of the last large run
};

}  // namespace tw::search
