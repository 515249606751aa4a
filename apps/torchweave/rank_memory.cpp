// SPDX-License-Identifier: Apache-2.0
#include "rank_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>

namespace tw::tool {

struct HeldMemory::Counter : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void* /*pointer*/, int64_t size, size_t /*total*/, size_t /*reserved*/, c10::Device device) override {
    if (device.is_cpu()) now += size;
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now = 0;
};

HeldMemory::HeldMemory()
    : counter_(std::make_shared<Counter>()), guard_(std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, counter_)) {}
HeldMemory::~HeldMemory() = default;
int64_t HeldMemory::now() const { return counter_->now; }

RankMemory memory_of_rank(const train::StrategyOptions& strategy, int ranks, int64_t parameters, int64_t state) {
  const auto share = [&](int64_t bytes) { return (bytes + ranks - 1) / ranks; };
  const int64_t unit = std::min(parameters, strategy.unit_bytes);
  switch (strategy.kind) {
    case train::StrategyKind::sharded:
      return {strategy.one_copy_per_node ? share(parameters) : parameters, strategy.release_gradients ? share(parameters) + unit : parameters,
              share(state)};
    case train::StrategyKind::fully_sharded: {
      const int64_t gathered = strategy.one_copy_per_node ? 0 : std::min(parameters, (1 + std::max(strategy.gather_ahead, 1)) * unit);
      return {share(parameters) + gathered, share(parameters) + unit, share(state)};
    }
    default: return {parameters, parameters, state};
  }
}

}  // namespace tw::tool
