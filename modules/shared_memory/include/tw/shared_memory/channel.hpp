// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/call.hpp>
#include <tw/shared_memory/plan.hpp>
#include <vector>

namespace tw::shared_memory {

/// Where a tensor lies in a window: memory of which every rank has an equal share and which all have mapped.
struct WindowPlace {
  int64_t window = -1;  ///< its number, the same on all ranks; -1: ordinary memory
  int64_t offset = 0;   ///< bytes from the start of the rank's share
  bool operator==(const WindowPlace&) const = default;
};

/// The part of a node's shared memory through which the ranks of one communicator speak: for each rank a step counter on cache lines of its own,
/// a record of what it does, and two slots with a header each. Knows processes (or, in tests, threads) by their ranks, and no MPI.
/// One thread at a time uses it.
class Channel {
 public:
  /// Bytes of memory that a channel needs. Zeroed.
  static int64_t bytes_needed(int ranks, int64_t slot_bytes);

  /// @param memory the same on all ranks. @param owner keeps it mapped. @param slot_bytes a multiple of 64, at least 64 a rank.
  Channel(std::shared_ptr<void> owner, std::byte* memory, int rank, int ranks, int64_t slot_bytes);

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  int64_t slot_bytes() const noexcept { return slot_bytes_; }

  /// Makes a window known. All ranks add the same ones in the same order. It is forgotten when `memory` dies.
  /// @param memory the shares of all ranks in rank order. @return its number.
  int64_t add_window(const std::shared_ptr<std::byte>& memory, int64_t share_bytes);
  /// Where [begin, begin + bytes) lies in my share of a window, if it does.
  WindowPlace find(const std::byte* begin, int64_t bytes) const;

  /// Writes what this rank does, for the others to read.
  /// @param number of calls begun, this one included.
  void record(const Call& call, uint64_t number);
  /// @param finished number of calls ended.
  void record_end(uint64_t finished);
  /// Writes that this rank makes no further call.
  void record_left();
  /// What `rank` does. A moment's view; never waits.
  LastSeen last_seen(int rank) const;

 private:
  friend class Exchange;
  friend class Meeting;

  struct alignas(128) Counter {
    std::atomic<uint64_t> value;
  };
  struct alignas(64) Header {
    Call call;
    WindowPlace place;
  };
  struct alignas(128) Record {
    std::atomic<uint64_t> version;  // odd while it is written
    std::atomic<uint64_t> calls;
    std::atomic<uint64_t> finished;
    std::atomic<int64_t> since;
    std::atomic<uint64_t> left;  // 0 or 1
    std::array<std::atomic<uint64_t>, sizeof(Call) / 8> call;
  };
  struct Window {
    int64_t number;
    std::weak_ptr<std::byte> memory;
    int64_t share_bytes;
  };

  static int64_t stride_of(int64_t slot_bytes);
  Counter& counter(int rank) const noexcept { return counters_[rank]; }
  bool all_reached(uint64_t step) const noexcept;
  bool reached(int rank, uint64_t step) const noexcept { return counter(rank).value.load(std::memory_order_acquire) >= step; }
  void post() noexcept { counter(rank_).value.store(++step_, std::memory_order_release); }
  /// Turns to the other slot; false: somebody may still read it.
  bool next_round() noexcept;
  /// Posts what this rank was called to do.
  void post_call(const Call& call, WindowPlace place) noexcept;
  /// @throws ContractError on every rank, naming the ranks and both calls, unless all have posted the same.
  void expect_same_calls() const;
  Header& header(int rank) const noexcept { return *reinterpret_cast<Header*>(slots_ + (slot_ * ranks_ + rank) * slot_stride_); }
  std::byte* slot(int rank) const noexcept { return reinterpret_cast<std::byte*>(&header(rank) + 1); }
  std::byte* share(int rank, WindowPlace place) const;
  Record& record_of(int rank) const noexcept { return records_[rank]; }

  std::shared_ptr<void> owner_;
  int rank_;
  int ranks_;
  int64_t slot_bytes_;
  Counter* counters_;
  Record* records_;
  std::byte* slots_;     // each after its header: small data comes with it, since processors fetch cache lines in pairs
  int64_t slot_stride_;  // bytes

  uint64_t step_ = 0;   // mine
  uint64_t guard_ = 0;  // my first post of the round that began last
  int slot_ = 0;        // of that round
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
  int64_t next_window_ = 0;
  std::vector<Window> windows_;
  std::vector<const std::byte*> inputs_;  // of the reduction that is done just now
  std::vector<std::byte*> outputs_;
};

/// One collective on a channel. All ranks begin the same ones in the same order; one begun earlier goes first.
class Exchange {
 public:
  /// @param input `call.count` elements; of reduce_scatter for every rank `call.count / ranks`. Null for barrier.
  /// @param output allreduce, reduce: `call.count` elements, may be `input`; broadcast: is `input`; allgather: ranks * `call.count`;
  ///               reduce_scatter: `call.count / ranks`. Of the last two, the smaller may be this rank's part of the larger.
  /// @param flat_bytes an allreduce up to this size is reduced by every rank for itself. The same on all ranks.
  /// @param part where the call is done in parts: of this one are `input` and `output`. Ranks compare the call
  Exchange(std::shared_ptr<Channel> channel, const Call& call, const std::byte* input, std::byte* output, int64_t flat_bytes,
           const std::optional<CallPart>& part = {});
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Does what can be done without waiting; true when all is done. @throws ContractError on every rank, naming the ranks and both calls, when the
  /// ranks were not called to do the same; the channel then goes on with the next.
  bool advance();

 private:
  void begin(Mode mode);
  bool execute(const Step& step);
  bool arrive();
  void copy(const Step& step) const;
  void reduce(const Step& step);
  const std::byte* place(Area area, int rank) const;

  std::shared_ptr<Channel> channel_;
  Call call_;
  Call moved_;                     // the part, if it has parts
  std::shared_ptr<bool> refused_;  // null: the call has no parts
  const std::byte* input_;
  std::byte* output_;
  int64_t flat_bytes_;
  WindowPlace window_;
  uint64_t ticket_;
  std::optional<Plan> plan_;
  int64_t round_ = 0;
  const std::vector<Step>* steps_ = nullptr;
  size_t next_step_ = 0;
  bool posted_ = false;  // of an arrive in flight
  Mode mode_ = Mode::staged;
  std::vector<WindowPlace> places_;  // direct: of every rank
};

}  // namespace tw::shared_memory
