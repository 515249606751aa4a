// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace tw::pipeline {

/// Bytes that this thread, and autograd for it, allocates for tensors on a kind of device, less those that it frees.
struct AllocationPeak : c10::MemoryReportingInfoBase {
  explicit AllocationPeak(c10::DeviceType of) : kind(of) {}
  void reportMemoryUsage(void* /*address*/, int64_t size, size_t /*allocated*/, size_t /*reserved*/, c10::Device device) override {
    if (device.type() != kind) return;
    now += size;
    most = std::max(most, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
  c10::DeviceType kind;
  int64_t now = 0;
  int64_t most = 0;
};

/// The most that `run` holds at a time on a kind of device, beyond what there was before.
template <class Run>
double peak_bytes(c10::DeviceType kind, const Run& run) {
  const auto peak = std::make_shared<AllocationPeak>(kind);
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  run();
  return static_cast<double>(peak->most);
}

}  // namespace tw::pipeline
