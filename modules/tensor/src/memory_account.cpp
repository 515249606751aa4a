// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/memory_account.hpp>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tw {
namespace {

// Per interval, e.g. an evaluation of many batches. Later events are counted, but not attributed to a use.
constexpr size_t max_events = size_t{1} << 18;

bool differ(const MemoryByUse& a, const MemoryByUse& b, int64_t by) {
  for (size_t use = 0; use < memory_uses; ++use) {
    if (std::abs(a.bytes[use] - b.bytes[use]) > by) return true;
  }
  return false;
}

}  // namespace

MemoryAccount::MemoryAccount(c10::DeviceType kind, bool keeps_samples)
    : keeps_samples_(keeps_samples), held_(kind, [this](const void* address, int64_t bytes) { note(address, bytes); }) {}

void MemoryAccount::note(const void* address, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  now_ += bytes;
  interval_.most = std::max(interval_.most, now_);
  if (interval_.phases.empty() || interval_.events.size() == max_events) return;
  interval_.events.push_back({address, bytes, keeps_samples_ ? std::chrono::steady_clock::now() : Time()});
}

void MemoryAccount::rest() {
  if (std::exchange(resting_, true)) return;
  held_.pause();
  const std::lock_guard lock(mutex_);
  now_ = 0;
  interval_ = {};
  knows_ = false;
}

void MemoryAccount::begin() {
  if (std::exchange(resting_, false)) held_.resume();
  const std::lock_guard lock(mutex_);
  interval_.before = interval_.most = now_;
  interval_.events.clear();
  interval_.phases.clear();
}

void MemoryAccount::phase(const char* name) {
  if (resting_) return;
  const std::lock_guard lock(mutex_);
  interval_.phases.push_back({name, interval_.events.size(), std::chrono::steady_clock::now()});
}

bool MemoryAccount::matters() const {
  if (resting_) return false;
  const std::lock_guard lock(mutex_);
  return keeps_samples_ || !knows_ || not_counted_ + interval_.most > peak_.held.together();
}

void MemoryAccount::end(int64_t step, const KnownMemory& known) {
  Interval interval;
  {
    const std::lock_guard lock(mutex_);
    interval = std::exchange(interval_, {});
    interval_.before = interval_.most = now_;
  }
  replay(interval, known, step);
  knows_ = true;
  earlier_ = known.blocks_;
}

// By event: whether it allocates a block that is known at the end. That is the last allocation at its address.
std::vector<bool> MemoryAccount::stay(const Interval& interval, const KnownMemory::Blocks& known) const {
  std::vector<bool> stays(interval.events.size());
  std::unordered_set<const void*> found;
  for (size_t i = interval.events.size(); i-- > 0;) {
    const Event& event = interval.events[i];
    stays[i] = event.bytes > 0 && known.contains(event.address) && held_.has(event.address) && found.insert(event.address).second;
  }
  return stays;
}

void MemoryAccount::replay(const Interval& interval, const KnownMemory& known, int64_t step) {
  // Reconstructs the beginning: add the blocks known now, then undo later allocations and releases of known blocks.
  MemoryByUse now = known.bytes();
  int64_t counted = 0;
  for (const auto& [address, block] : known.blocks_) {
    if (held_.has(address)) counted += block.bytes;
  }
  not_counted_ = now.together() - counted;
  const std::vector<bool> stays = stay(interval, known.blocks_);
  std::unordered_map<const void*, MemoryUse> older;
  for (const auto& [address, block] : earlier_) older.emplace(address, block.use);
  std::vector<MemoryUse> uses(interval.events.size(), MemoryUse::activations);
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto& [address, bytes, time] = interval.events[i];
    const auto known_before = older.find(address);
    if (stays[i]) {
      uses[i] = known.blocks_.at(address).use;
    } else if (bytes < 0 && known_before != older.end()) {
      uses[i] = known_before->second;
    }
    if (known_before != older.end()) older.erase(known_before);
    if (uses[i] != MemoryUse::activations) now[uses[i]] -= bytes;
  }
  now[MemoryUse::activations] = 0;
  now[MemoryUse::activations] = not_counted_ + interval.before - now.together();

  const int64_t worth_a_sample = (not_counted_ + interval.most) / 256;
  const char* during = "";
  MemoryByUse sampled;
  samples_.clear();
  const auto sample = [&](Time time) {
    if (!keeps_samples_) return;
    sampled = now;
    samples_.push_back({time, during, now});
  };
  const auto compare = [&](int64_t more) {
    if (now.together() + more <= peak_.held.together()) return;
    peak_ = {now, during, step};
    peak_.held[MemoryUse::activations] += more;
  };
  size_t event = 0;
  const auto advance = [&](size_t end) {
    for (; event < end; ++event) {
      now[uses[event]] += interval.events[event].bytes;
      compare(0);
      if (differ(now, sampled, worth_a_sample)) sample(interval.events[event].time);
    }
  };
  for (const Phase& phase : interval.phases) {
    advance(phase.event);
    during = phase.name;
    sample(phase.time);
  }
  advance(interval.events.size());
  if (interval.events.size() == max_events) compare(not_counted_ + interval.most - now.together());
  if (!interval.phases.empty()) sample(std::chrono::steady_clock::now());
}

}  // namespace tw
