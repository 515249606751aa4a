// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <mutex>
#include <tw/tensor/held_memory.hpp>
#include <tw/train/memory.hpp>
#include <unordered_map>
#include <vector>

namespace tw::train {

/// Memory blocks with known use.
class KnownMemory {
 public:
  /// Adds the block that holds `tensor`. If a block is added again, its first use counts. Undefined tensors are ignored. @param sharers number of
  /// ranks that share the block; each counts an equal share of it
  void add(MemoryUse use, const at::Tensor& tensor, int sharers = 1);
  /// Adds memory that does not belong to a tensor.
  void add(MemoryUse use, int64_t bytes) { elsewhere_[use] += bytes; }

 private:
  friend class MemoryAccount;
  struct Block {
    MemoryUse use;
    int64_t bytes;
  };
  using Blocks = std::unordered_map<const void*, Block>;
  Blocks blocks_;
  MemoryByUse elsewhere_;
};

/// Records a rank's memory by use, from construction on: its peak, and its course over time. It counts memory as HeldMemory does. Memory that was
/// allocated before, or not by LibTorch, is included only if it is KnownMemory.
///
/// Memory is recorded in intervals, such as an update. A block that is still held at the end of an interval gets the use that is known then, for all
/// the time since its allocation; all other blocks are activations. So uses need not be declared in advance: gradients that autograd allocates count
/// as gradients from their allocation.
class MemoryAccount {
 public:
  explicit MemoryAccount(c10::DeviceType kind, bool keeps_samples = false);

  /// Begins an interval, such as an update.
  void begin();
  /// Stops counting until the next interval begins; this costs nothing. Memory allocated meanwhile is treated like memory from before construction.
  void rest();
  /// Begins a phase of this interval. @param name a string literal
  void phase(const char* name);
  /// Whether to call end() for this interval: it may have a new peak, or samples are kept. Otherwise end() may be skipped.
  bool matters() const;
  /// Ends the interval. @param step number of updates before it @param known the blocks whose use is known now
  void end(int64_t step, const KnownMemory& known);

  const MemoryPeak& peak() const noexcept { return peak_; }
  /// Samples of the last interval that was ended: at the beginning of each phase, and after each change by more than 1/256 of the maximum.
  const std::vector<MemorySample>& samples() const noexcept { return samples_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Event {
    const void* address;
    int64_t bytes;  // negative: freed
    Time time;
  };
  struct Phase {
    const char* name;
    size_t event;  // the first
    Time time;
  };
  /// All records of an interval.
  struct Interval {
    int64_t before = 0;  // bytes counted
    int64_t most = 0;
    std::vector<Event> events;
    std::vector<Phase> phases;
  };

  void note(const void* address, int64_t bytes);
  std::vector<bool> stay(const Interval& interval, const KnownMemory::Blocks& known) const;
  void replay(const Interval& interval, const KnownMemory& known, int64_t step);

  const bool keeps_samples_;
  mutable std::mutex mutex_;  // guards records of other threads
  int64_t now_ = 0;
  Interval interval_;

  bool resting_ = false;
  bool knows_ = false;           // not_counted_ is known: an interval has ended since construction or since rest()
  KnownMemory::Blocks earlier_;  // known blocks at the end of the previous interval
  int64_t not_counted_ = 0;      // bytes of known memory that is not counted
  MemoryPeak peak_;
  std::vector<MemorySample> samples_;
  HeldMemory held_;  // last: it reports blocks to the other members
};

}  // namespace tw::train
