// SPDX-License-Identifier: Apache-2.0
// What training takes of a rank's memory.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/train/strategy_options.hpp>

namespace c10 {
class DebugInfoGuard;
}

namespace tw::tool {

/// Bytes.
struct RankMemory {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t together() const noexcept { return parameters + gradients + optimizer; }
};

/// What a rank keeps of a model of so many bytes, what is gathered for the time being and buckets that are under way included; of `local_sgd`,
/// `diloco` and `parameter_server` without the copies that these keep beside. Pure. @param state of the optimizer, of one process
RankMemory memory_of_rank(const train::StrategyOptions& strategy, int ranks, int64_t parameters, int64_t state);

/// Counts the memory on the CPU that LibTorch takes on this thread.
class HeldMemory {
 public:
  HeldMemory();
  ~HeldMemory();
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  /// Bytes taken since the construction and not given back.
  int64_t now() const;

 private:
  struct Counter;
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace tw::tool
