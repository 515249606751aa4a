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

/// The place of a tensor in a window. A window is memory that all ranks have mapped; each rank owns an equal share of it.
struct WindowPlace {
  int64_t window = -1;  ///< number of the window, the same on all ranks; -1: ordinary memory
  int64_t offset = 0;   ///< bytes from the start of the rank's share
  bool operator==(const WindowPlace&) const = default;
};

/// The part of a node's shared memory through which the ranks of one communicator exchange data. Each rank has a step counter on its own cache lines,
/// a record of its current call, and two slots with a header each. A channel identifies processes (or, in tests, threads) by rank and does not use
/// MPI. Each rank has its own Channel object, which only one thread at a time may use.
class Channel {
 public:
  /// Bytes of zeroed memory that a channel needs for all ranks together.
  static int64_t bytes_needed(int ranks, int64_t slot_bytes);

  /// @param owner keeps `memory` mapped. @param memory bytes_needed() zeroed bytes, the same memory on all ranks.
  /// @param slot_bytes size of a slot: a multiple of 64, at least 64 per rank.
  Channel(std::shared_ptr<void> owner, std::byte* memory, int rank, int ranks, int64_t slot_bytes);

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  int64_t slot_bytes() const noexcept { return slot_bytes_; }

  /// Registers a window. All ranks must add the same windows in the same order. A window is removed when `memory` is destroyed.
  /// @param memory the shares of all ranks in rank order. @return the window's number.
  int64_t add_window(const std::shared_ptr<std::byte>& memory, int64_t share_bytes);
  /// The place of [begin, begin + bytes) if it lies in this rank's share of a window; otherwise WindowPlace().
  WindowPlace find(const std::byte* begin, int64_t bytes) const;

  /// Publishes this rank's current call to the other ranks.
  /// @param number number of calls begun, including this one.
  void record(const Call& call, uint64_t number);
  /// Publishes that a call has ended. @param finished number of calls ended.
  void record_end(uint64_t finished);
  /// Publishes that this rank makes no further calls.
  void record_release();
  /// A snapshot of what `rank` is doing; never waits.
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
    std::atomic<uint64_t> version;  // odd during a write
    std::atomic<uint64_t> calls;
    std::atomic<uint64_t> finished;
    std::atomic<int64_t> since;
    std::atomic<uint64_t> released;  // 0 or 1
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
  /// Switches to the other slot; returns false if another rank may still be reading it.
  bool next_round() noexcept;
  /// Posts this rank's call.
  void post_call(const Call& call, WindowPlace place) noexcept;
  /// @throws ContractError on every rank unless all have posted the same call. The message names the ranks and their calls.
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
  std::byte* slots_;     // each follows its header, so that small data is fetched with the header: processors fetch cache lines in pairs
  int64_t slot_stride_;  // bytes

  uint64_t step_ = 0;   // this rank's step
  uint64_t guard_ = 0;  // this rank's first post of the latest round
  int slot_ = 0;        // slot of the latest round
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
  int64_t next_window_ = 0;
  std::vector<Window> windows_;
  std::vector<const std::byte*> inputs_;  // inputs of the current reduction
  std::vector<std::byte*> outputs_;
};

/// One collective on a channel. All ranks begin the same collectives in the same order, and the channel executes them in this order.
class Exchange {
 public:
  /// @param input `call.count` elements; for reduce_scatter these are `call.count / ranks` for each rank. Null for barrier.
  /// @param output allreduce, reduce: `call.count` elements, may be `input`; broadcast: must be `input`; allgather: ranks * `call.count`;
  ///               reduce_scatter: `call.count / ranks`. For allgather and reduce_scatter, the smaller buffer may be this rank's part of the larger.
  /// @param flat_bytes number of bytes up to which every rank computes the whole allreduce itself; the same on all ranks.
  /// @param part if `call` is split into parts: the part that this exchange transfers. `input` and `output` then have the sizes of the part, but the
  ///             ranks compare the whole `call`.
  Exchange(std::shared_ptr<Channel> channel, const Call& call, const std::byte* input, std::byte* output, int64_t flat_bytes,
           const std::optional<CallPart>& part = {});
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Advances without waiting; returns true when complete.
  /// @throws ContractError on every rank if the ranks' calls differ. The message names the ranks and their calls. The channel then continues with the
  /// next collective.
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
  Call moved_;                     // the call that is executed: the part, if the call has parts
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
  bool posted_ = false;  // whether the arrive in progress has posted
  Mode mode_ = Mode::staged;
  std::vector<WindowPlace> places_;  // direct: places of all ranks
};

}  // namespace tw::shared_memory
