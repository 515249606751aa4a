// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/tensor/held_memory.hpp>
#include <unordered_map>
#include <vector>

namespace tw::pipeline {

/// Live blocks of LibTorch's memory, by the party that allocated them.
class AllocationLog {
 public:
  AllocationLog(size_t parties, c10::DeviceType kind)
      : bytes_(parties), held_(kind, [this](const void* address, int64_t bytes) { note(address, static_cast<double>(bytes)); }) {}

  /// Sets the party of the following allocations.
  void now(size_t party) noexcept { party_ = party; }
  /// Bytes of live blocks that each party allocated.
  const std::vector<double>& bytes() const noexcept { return bytes_; }

 private:
  void note(const void* address, double bytes) {
    const auto [place, taken] = taker_.try_emplace(address, party_);
    bytes_[place->second] += bytes;
    if (!taken) taker_.erase(place);
  }

  size_t party_ = 0;
  std::vector<double> bytes_;
  std::unordered_map<const void*, size_t> taker_;
  HeldMemory held_;
};

}  // namespace tw::pipeline
