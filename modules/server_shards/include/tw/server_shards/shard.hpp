// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tw/server_shards/rule.hpp>
#include <vector>

namespace tw::parameter_server {

/// A server's part of a tensor, in memory that several processes (in tests, threads) can map: the values, the state of the rules, and the locks that
/// protect both. Each process changes this memory directly, one chunk at a time. Each chunk has its own lock, which waiting processes get in no
/// particular order.
///
/// push() and pull() hold a lock only while they process one chunk of 64 KiB. Waiting callers yield the core, or call Waiting::wait.
class Shard {
 public:
  /// Size of a chunk's values: large enough that the cost of a lock is negligible, small enough that waits are short.
  static constexpr int64_t chunk_bytes = int64_t{64} << 10;

  /// Bytes of memory that a Shard of `count` elements needs. The memory must be zeroed.
  static int64_t bytes_needed(int64_t count, ElementType type, const std::vector<Rule>& rules);

  static constexpr int nobody = -1;
  /// A function that waits for another user, that is, another process that uses the memory. It returns once `happened()` is true, or throws. For
  /// processes that must drive communication while they wait, because other users depend on it. @param holder the number of the user that is waited
  /// for, or `nobody` if unknown
  using Wait = std::function<void(const std::function<bool()>& happened, int holder)>;
  /// How this process uses the memory: its user number and its wait function.
  struct Waiting {
    int user = 0;    ///< number of this user, different in each process
    Wait wait = {};  ///< empty: yields the core
  };

  /// @param memory begins on a cache line; the same memory in all processes that map it. @param owner keeps it mapped
  Shard(std::shared_ptr<void> owner, std::byte* memory, int64_t count, ElementType type, std::shared_ptr<const std::vector<Rule>> rules,
        Waiting waiting);

  int64_t count() const noexcept { return count_; }

  /// A push in progress. snapshot() and restore() wait until it is destroyed. Move-only.
  class Entry {
   private:
    friend class Shard;
    struct Leave {
      void operator()(std::atomic<int32_t>* inside) const;
    };
    explicit Entry(std::atomic<int32_t>* inside) : inside_(inside) {}
    std::unique_ptr<std::atomic<int32_t>, Leave> inside_;
  };
  /// Begins a push that consists of several parts: destroy the Entry after the last one. Returns std::nullopt while a snapshot() or restore() is in
  /// progress or pending; try again later.
  std::optional<Entry> enter() const;
  /// Applies rule number `rule` to `count` elements from `begin` on. The range must consist of whole chunks, so that each chunk counts one update per
  /// push.
  /// @throws the rule's exception; the chunks before it have then been changed
  void push(const Entry& entry, size_t rule, int64_t begin, int64_t count, const std::byte* pushed);
  /// Like enter() and push(), for a push of one part. Waits while a snapshot() or restore() is in progress or pending.
  void push(size_t rule, int64_t begin, int64_t count, const std::byte* pushed);
  /// Copies `count` elements from `begin` on. Each chunk is consistent; different chunks may be copied at different times.
  void pull(int64_t begin, int64_t count, std::byte* to) const;

  /// The number of pushes to the first chunk so far, by all rules. Never waits.
  int64_t pushes() const noexcept;

  /// Values and state as they were between two pushes.
  struct Snapshot {
    std::vector<std::byte> values;
    std::vector<std::vector<std::byte>> state;  ///< one array per slot, in the order of the rules; the elements are of state_type()
    std::vector<int64_t> updates;               ///< number of updates by each rule; the maximum over all chunks
  };
  /// Blocks new pushes, waits for those in progress, and copies.
  Snapshot snapshot() const;
  /// Replaces values, state and numbers of updates by those of `snapshot`, which may be assembled from snapshots of other shards. Blocks and waits as
  /// snapshot() does. @throws ContractError if the snapshot does not fit this shard
  void restore(const Snapshot& snapshot);

 private:
  struct alignas(64) Gate {
    std::atomic<uint32_t> closed;  // 1 + the user that closed it, as in Lock; 0: open
    std::atomic<int32_t> inside;
  };
  struct Lock {
    std::atomic<uint32_t> holder;  // 1 + the user that holds it; 0: free
  };
  class Closed;
  class Locked;

  /// Offsets and sizes in the memory.
  struct Places {
    Places(int64_t count, ElementType type, const std::vector<Rule>& rules);
    int64_t chunk;  ///< elements of each chunk but the last
    int64_t chunks;
    int64_t record;  ///< bytes for a chunk's lock and counts
    int64_t values;  ///< byte offset of the values
    int64_t state;   ///< byte offset of the first slot
    int64_t plane;   ///< bytes of each slot
    int64_t slots;
    int64_t bytes;
  };

  Gate& gate() const noexcept { return *reinterpret_cast<Gate*>(memory_); }
  std::byte* record(int64_t chunk) const noexcept { return memory_ + sizeof(Gate) + chunk * places_.record; }
  int closed_by() const noexcept;
  Lock& lock(int64_t chunk) const noexcept { return *reinterpret_cast<Lock*>(record(chunk)); }
  int64_t* updates(int64_t chunk) const noexcept { return reinterpret_cast<int64_t*>(record(chunk) + sizeof(int64_t)); }
  std::byte* values() const noexcept { return memory_ + places_.values; }
  std::byte* slot(int64_t index) const noexcept { return memory_ + places_.state + index * places_.plane; }
  template <class Function>
  void for_each_chunk(int64_t begin, int64_t count, Function f) const;

  std::shared_ptr<void> owner_;
  std::byte* memory_;
  int64_t count_;
  ElementType type_;
  int64_t element_;        // bytes
  int64_t state_element_;  // bytes of a state value
  std::shared_ptr<const std::vector<Rule>> rules_;
  std::vector<int64_t> first_slot_;  // by rule
  Waiting waiting_;
  Places places_;
};

}  // namespace tw::parameter_server
