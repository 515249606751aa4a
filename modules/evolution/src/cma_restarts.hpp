// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <tw/evolution/cma_es.hpp>

namespace tw::search {

/// A run, named by a number from which alone, with the seed, its settings follow, so that workers that meet the number agree on them. A later restart
/// has a larger number: its bits are restart (25) | doublings of the last large run (5) | whether it is large (1).
struct CmaRunNumber {
  static constexpr int32_t most_doublings = 9;

  int32_t restart = 0;
  int32_t doublings = 0;
  bool large = false;

  int32_t packed() const noexcept { return restart << 6 | doublings << 1 | static_cast<int32_t>(large); }
  static CmaRunNumber unpacked(int32_t number) noexcept { return {number >> 6, number >> 1 & 31, (number & 1) != 0}; }
  /// Whether it can be one of a run at all: tags of other optimizers are other numbers.
  bool is_possible() const noexcept { return restart >= 0 && doublings <= std::min(restart, most_doublings) && (!large || doublings > 0); }
  bool operator==(const CmaRunNumber&) const = default;
};

/// What a run starts with.
struct CmaRunSettings {
  size_t lambda;
  double sigma;
  /// Draws for its first mean.
  CounterRng random;
};

/// large: lambda 2^doublings. Small, from the first restart: lambda (2^doublings / 2)^(U^2) and sigma 10^(-2 U'), U uniform. Ref: Hansen 2009.
CmaRunSettings settings_of(CmaRunNumber run, size_t lambda, double sigma, uint64_t seed);

/// Says which run follows, from the evaluations that earlier ones took.
/// IPOP (Auger & Hansen 2005): each has twice the lambda. BIPOP (Hansen 2009): large ones like these, and small ones as long as all small ones
/// together, the first run among them, have taken less than all large ones; a small one may take half of what the last large one took.
class CmaRestarts {
 public:
  explicit CmaRestarts(CmaOptions::Restarts policy) : policy_(policy) {}

  /// This many evaluations went into a run that is over.
  void count(CmaRunNumber run, int64_t evaluations);
  CmaRunNumber after(CmaRunNumber run) const;
  /// Evaluations that this run may take.
  int64_t limit(CmaRunNumber run) const;

 private:
  CmaOptions::Restarts policy_;
  int64_t small_ = 0;       // evaluations of all
  int64_t large_ = 0;       // evaluations of all
  int64_t last_large_ = 0;  // evaluations
};

}  // namespace tw::search
