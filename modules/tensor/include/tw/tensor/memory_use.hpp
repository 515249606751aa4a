// SPDX-License-Identifier: Apache-2.0
// A rank's memory by use.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tw {

enum class MemoryUse {
  parameters,   ///< the parameters that the rank keeps from step to step: all, its slices, or its part of the model
  gradients,    ///< gradients of its parameters, and their buckets
  optimizer,    ///< the optimizer's state of each parameter, float32 master weights, anchors and momenta of DiLoCo
  buffers,      ///< the model's buffers; buffers for gathering, reducing or averaging; shards of a parameter server; a checkpoint being written
  activations,  ///< all other memory of LibTorch: activations for backward passes, batches, temporaries (also of the optimizer's step)
};
constexpr size_t memory_uses = 5;

/// The name of a use, such as "parameters".
const char* name_of(MemoryUse use);

/// Bytes of memory, by use.
struct MemoryByUse {
  std::array<int64_t, memory_uses> bytes{};

  int64_t& operator[](MemoryUse use) noexcept { return bytes[static_cast<size_t>(use)]; }
  int64_t operator[](MemoryUse use) const noexcept { return bytes[static_cast<size_t>(use)]; }
  int64_t together() const noexcept;
  /// A text in MiB, such as "parameters 1.6, gradients 1.6, optimizer 3.3, buffers 0.0, activations 5.8".
  std::string describe() const;
  bool operator==(const MemoryByUse&) const = default;
};

/// The moment at which a rank held the most memory.
struct MemoryPeak {
  MemoryByUse held;
  std::string during;  ///< the phase, such as "forward", "backward", "update", "evaluation" or "checkpoint"; empty: nothing was counted
  int64_t step = 0;    ///< number of updates before this moment
};

/// A rank's memory from `time` until the next sample.
struct MemorySample {
  std::chrono::steady_clock::time_point time;
  const char* during;
  MemoryByUse held;
};

}  // namespace tw
