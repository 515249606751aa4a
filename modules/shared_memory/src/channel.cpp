// SPDX-License-Identifier: Apache-2.0
#include <tw/shared_memory/channel.hpp>

#include <algorithm>
#include <bit>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

namespace tw::shared_memory {
namespace {

constexpr int64_t line = 128;  // bytes; two cache lines, because processors fetch them in pairs

}  // namespace

int64_t Channel::stride_of(int64_t slot_bytes) { return divide_up(static_cast<int64_t>(sizeof(Header)) + slot_bytes, line) * line; }

int64_t Channel::bytes_needed(int ranks, int64_t slot_bytes) {
  return ranks * (static_cast<int64_t>(sizeof(Counter) + sizeof(Record)) + 2 * stride_of(slot_bytes));
}

// Zeroed memory is a valid initial state: counters at 0, nothing recorded.
Channel::Channel(std::shared_ptr<void> owner, std::byte* memory, int rank, int ranks, int64_t slot_bytes)
    : owner_(std::move(owner)), rank_(rank), ranks_(ranks), slot_bytes_(slot_bytes) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);  // otherwise it would not work between processes
  TW_EXPECTS(slot_bytes % 64 == 0 && slot_bytes >= int64_t{64} * ranks, "the bytes of a slot must be a multiple of 64, and at least 64 for each of ",
             ranks, " ranks, got ", slot_bytes);
  counters_ = reinterpret_cast<Counter*>(memory);
  records_ = reinterpret_cast<Record*>(counters_ + ranks);
  slots_ = reinterpret_cast<std::byte*>(records_ + ranks);
  slot_stride_ = stride_of(slot_bytes);
}

bool Channel::all_reached(uint64_t step) const noexcept {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!reached(rank, step)) return false;
  }
  return true;
}

bool Channel::next_round() noexcept {
  if (!all_reached(guard_)) return false;
  guard_ = step_ + 1;
  slot_ = 1 - slot_;
  return true;
}

void Channel::post_call(const Call& call, WindowPlace place) noexcept {
  header(rank_) = {call, place};
  post();
}

void Channel::expect_same_calls() const {
  std::string differences;
  for (int rank = 1; rank < ranks_; ++rank) {
    const Call& theirs = header(rank).call;
    const Call& reference = header(0).call;
    if (theirs == reference) continue;
    differences +=
        concat(differences.empty() ? "" : "; ", "rank ", rank, " has '", theirs.describe(), "' where rank 0 has '", reference.describe(), "'");
  }
  TW_EXPECTS(differences.empty(), "all ranks must make the same collective call: ", differences);
}

int64_t Channel::add_window(const std::shared_ptr<std::byte>& memory, int64_t share_bytes) {
  std::erase_if(windows_, [](const Window& window) { return window.memory.expired(); });
  windows_.push_back({next_window_, memory, share_bytes});
  return next_window_++;
}

WindowPlace Channel::find(const std::byte* begin, int64_t bytes) const {
  for (const Window& window : windows_) {
    const auto memory = window.memory.lock();
    if (!memory) continue;
    const std::byte* mine = memory.get() + rank_ * window.share_bytes;
    if (begin >= mine && begin + bytes <= mine + window.share_bytes) return {window.number, begin - mine};
  }
  return {};
}

std::byte* Channel::share(int rank, WindowPlace place) const {
  for (const Window& window : windows_) {
    if (window.number == place.window) return window.memory.lock().get() + rank * window.share_bytes + place.offset;
  }
  return nullptr;  // a peer still uses a window that this rank has released: `arrive` then falls back to staging
}

void Channel::record(const Call& call, uint64_t number) {
  Record& mine = record_of(rank_);
  const auto words = std::bit_cast<std::array<uint64_t, sizeof(Call) / 8>>(call);
  mine.version.fetch_add(1, std::memory_order_acquire);
  for (size_t i = 0; i < words.size(); ++i) mine.call[i].store(words[i], std::memory_order_release);
  mine.since.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  mine.version.fetch_add(1, std::memory_order_release);
  mine.calls.store(number, std::memory_order_relaxed);
}

void Channel::record_end(uint64_t finished) {
  Record& mine = record_of(rank_);
  mine.since.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  mine.finished.store(finished, std::memory_order_relaxed);
}

void Channel::record_release() { record_of(rank_).released.store(1, std::memory_order_release); }

LastSeen Channel::last_seen(int rank) const {
  const Record& record = record_of(rank);
  LastSeen seen;
  seen.has_released = record.released.load(std::memory_order_acquire) != 0;  // first: a rank that has left has recorded all its calls
  for (int attempt = 0; attempt < 100; ++attempt) {  // a rank stopped while writing leaves half a record; the last attempt is used then
    const uint64_t version = record.version.load(std::memory_order_acquire);
    std::array<uint64_t, sizeof(Call) / 8> words{};
    for (size_t i = 0; i < words.size(); ++i) words[i] = record.call[i].load(std::memory_order_acquire);
    seen.call = std::bit_cast<Call>(words);
    if (version % 2 == 0 && record.version.load(std::memory_order_relaxed) == version) break;
  }
  seen.calls = record.calls.load(std::memory_order_relaxed);
  seen.finished = record.finished.load(std::memory_order_relaxed);
  const std::chrono::steady_clock::time_point since{std::chrono::steady_clock::duration(record.since.load(std::memory_order_relaxed))};
  seen.idle = std::chrono::steady_clock::now() - since;
  return seen;
}

}  // namespace tw::shared_memory
