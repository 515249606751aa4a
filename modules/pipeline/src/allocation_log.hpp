// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Allocator.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tw::pipeline {

/// Which allocations of tensors on a kind of device live, by who was at work when they were made. Install by c10::DebugInfoGuard, for one thread.
class AllocationLog : public c10::MemoryReportingInfoBase {
 public:
  AllocationLog(size_t parties, c10::DeviceType kind) : kind_(kind), bytes_(parties) {}

  void now(size_t party) noexcept { party_ = party; }
  /// By party: bytes that it allocated and that live.
  const std::vector<double>& bytes() const noexcept { return bytes_; }

  void reportMemoryUsage(void* address, int64_t size, size_t /*allocated*/, size_t /*reserved*/, c10::Device device) override {
    if (device.type() != kind_) return;
    if (size > 0) {
      live_[address] = {party_, static_cast<double>(size)};
      bytes_[party_] += static_cast<double>(size);
      return;
    }
    const auto found = live_.find(address);
    if (found == live_.end()) return;  // older than the log
    bytes_[found->second.first] -= found->second.second;
    live_.erase(found);
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  c10::DeviceType kind_;
  size_t party_ = 0;
  std::vector<double> bytes_;
  std::unordered_map<void*, std::pair<size_t, double>> live_;
};

}  // namespace tw::pipeline
