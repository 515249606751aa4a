// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>
#include <tw/tensor/held_memory.hpp>
#include <tw/tensor/known_memory.hpp>
#include <tw/tensor/memory_use.hpp>
#include <vector>

namespace tw {

/// Records this rank's memory by use, from construction on: the peak, and the course over time. Counts memory as HeldMemory does. Memory that was
/// allocated before construction, or not by LibTorch, is included only if it is KnownMemory.
///
/// Memory is recorded in intervals, such as an update. If a block is still held at the end of an interval, and its use is known then, it counts as
/// this use from its allocation on. All other blocks count as activations. You need not declare uses in advance: gradients that autograd allocates
/// count as gradients from their allocation on.
class MemoryAccount {
 public:
  explicit MemoryAccount(c10::DeviceType kind, bool keeps_samples = false);

  /// Begins an interval, such as an update.
  void begin();
  /// Stops counting, at no cost, until the next interval begins. Memory allocated meanwhile is treated like memory from before construction.
  void rest();
  /// Begins a phase of this interval. @param name a string literal
  void phase(const char* name);
  /// Whether end() must be called for this interval, because the interval may have a new peak, or because samples are kept.
  bool matters() const;
  /// Ends the interval. @param step number of updates before it @param known the blocks whose use is known now
  void end(int64_t step, const KnownMemory& known);

  const MemoryPeak& peak() const noexcept { return peak_; }
  /// Samples of the last interval for which end() was called: at the beginning of each phase, at the end, and whenever a use has changed by more than
  /// 1/256 of the maximum.
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
    size_t event;  // index of its first event
    Time time;
  };
  /// All records of an interval.
  struct Interval {
    int64_t before = 0;  // bytes held at its beginning
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
  int64_t not_counted_ = 0;      // bytes of known memory that HeldMemory does not count
  MemoryPeak peak_;
  std::vector<MemorySample> samples_;
  HeldMemory held_;  // last: it reports blocks to the other members
};

}  // namespace tw
