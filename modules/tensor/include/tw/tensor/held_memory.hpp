// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace c10 {
class DebugInfoGuard;
}

namespace tw {

/// Counts the memory that LibTorch allocates for tensors on one kind of device. It covers this thread, autograd's threads, and the workers of a
/// Loader that this thread constructs meanwhile. It includes FlatBuffer's memory, but not that of shared_tensor() (<tw/comm/shared_tensor.hpp>).
/// Costs 0.1 us per block. Memory freed on other threads counts as held until its address is reused. If a thread has several such objects, destroy
/// them in reverse order of construction; only the newest one counts. LibTorch's profiler sees no memory while this object exists.
class HeldMemory {
 public:
  /// Called for each block that is allocated or freed, by one thread at a time. @param bytes negative if the block was freed
  using OnBlock = std::function<void(const void* address, int64_t bytes)>;

  explicit HeldMemory(c10::DeviceType kind = c10::DeviceType::CPU, OnBlock on_block = {});
  ~HeldMemory();
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  /// Bytes that were allocated since construction and are not yet freed.
  int64_t now() const;
  /// The maximum of now() since construction, or since the last call of forget_most().
  int64_t most() const;
  void forget_most();
  /// Forgets all blocks and stops counting until resume(); meanwhile allocations cost nothing extra. Blocks allocated before resume() are never
  /// counted.
  void pause();
  void resume();
  /// Whether the block that begins at `address` is counted.
  bool has(const void* address) const;

 private:
  struct Counter;
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

/// Calls `run` and returns the largest number of bytes that it holds at any time, in addition to those held before.
template <class Run>
int64_t peak_bytes(c10::DeviceType kind, const Run& run) {
  const HeldMemory held(kind);
  run();
  return held.most();
}

}  // namespace tw
