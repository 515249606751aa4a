// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <mutex>
#include <tw/tensor/held_memory.hpp>
#include <tw/train/memory.hpp>
#include <unordered_map>
#include <vector>

namespace tw::train {

/// Memory whose use is known.
class KnownMemory {
 public:
  /// Adds the block in which `tensor` lies; its first use counts. Undefined tensors are left out. @param sharers ranks that share the block
  void add(MemoryUse use, const at::Tensor& tensor, int sharers = 1);
  /// Adds memory that is not a tensor's.
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

/// What a rank holds, by use, from its construction on: the most of it, and how it went. Counts as HeldMemory does; what is older, or not LibTorch's,
/// is there when it is known.
///
/// Blocks that are still held at the end of a stretch get the use that is known then, from their allocation on; blocks of no known use are
/// activations. So no use is declared in advance: gradients that autograd makes are gradients as soon as it makes them.
class MemoryAccount {
 public:
  explicit MemoryAccount(c10::DeviceType kind, bool keeps_samples = false);

  /// Begins a stretch, such as an update.
  void begin();
  /// Counts nothing until the next stretch begins, which takes no time; what lives then is older.
  void rest();
  /// What comes now, in this stretch. @param name a literal
  void phase(const char* name);
  /// Whether the stretch may have held more than those before it, or samples are kept: then it is to be ended, by end(). Otherwise it may go by.
  bool matters() const;
  /// @param step updates before it
  void end(int64_t step, const KnownMemory& known);

  const MemoryPeak& peak() const noexcept { return peak_; }
  /// Of the last stretch that was ended: where a phase began, and where something had changed by 1/256 of the most.
  const std::vector<MemorySample>& samples() const noexcept { return samples_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Event {
    const void* address;
    int64_t bytes;  // negative: given back
    Time time;
  };
  struct Phase {
    const char* name;
    size_t event;  // the first
    Time time;
  };
  /// All that was noted of a stretch.
  struct Stretch {
    int64_t before = 0;  // bytes counted
    int64_t most = 0;
    std::vector<Event> events;
    std::vector<Phase> phases;
  };

  void note(const void* address, int64_t bytes);
  std::vector<bool> stay(const Stretch& stretch, const KnownMemory::Blocks& known) const;
  void replay(const Stretch& stretch, const KnownMemory& known, int64_t step);

  const bool keeps_samples_;
  mutable std::mutex mutex_;  // of what other threads note
  int64_t now_ = 0;
  Stretch stretch_;

  bool resting_ = false;
  bool knows_ = false;           // what is not counted: a stretch was ended since the beginning, or since the rest
  KnownMemory::Blocks earlier_;  // known at the end of the stretch before
  int64_t not_counted_ = 0;      // of what is known
  MemoryPeak peak_;
  std::vector<MemorySample> samples_;
  HeldMemory held_;  // last: it reports blocks to the other members
};

}  // namespace tw::train
