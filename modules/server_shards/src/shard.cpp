// SPDX-License-Identifier: Apache-2.0
#include <tw/server_shards/shard.hpp>

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

namespace tw::parameter_server {
namespace {

constexpr int64_t line = 64;
constexpr int spins_before_yield = 64;

int64_t rounded_up(int64_t bytes) { return divide_up(bytes, line) * line; }

int64_t slots_of(const std::vector<Rule>& rules) {
  int64_t slots = 0;
  for (const Rule& rule : rules) slots += rule.slots;
  return slots;
}

/// Waits until `happened()`. Yields the core, because the other user may need it. @param holder returns the user that is waited for now
template <class Condition, class Holder>
void wait_until(Condition happened, Holder holder, const Shard::Wait& wait) {
  bool has_happened = false;
  for (int spins = 0; !has_happened && !(has_happened = happened()); ++spins) {
    if (spins < spins_before_yield) continue;
    if (!wait) {
      sched_yield();
      continue;
    }
    const int holder_now = holder();
    wait([&] { return (has_happened = happened()) || holder() != holder_now; }, holder_now);
  }
}

/// Marks are stored in memory that starts at zero: 0 means no user.
uint32_t mark_of(int user) { return static_cast<uint32_t>(user) + 1; }
int user_of(uint32_t mark) { return static_cast<int>(mark) - 1; }

}  // namespace

std::optional<Shard::Entry> Shard::enter() const {
  Gate& at = gate();
  if (at.closed.load(std::memory_order_relaxed) != 0) return std::nullopt;  // before it counts itself: waiting pushes never delay a closer
  at.inside.fetch_add(1);
  Entry entry(&at.inside);
  if (at.closed.load() != 0) return std::nullopt;
  return entry;
}

void Shard::Entry::Leave::operator()(std::atomic<int32_t>* inside) const { inside->fetch_sub(1, std::memory_order_release); }

/// While it lives, no push is inside, and none enters.
class Shard::Closed {
 public:
  explicit Closed(const Shard& shard) {
    Gate& gate = shard.gate();
    const auto close = [&] {
      uint32_t open = 0;
      return gate.closed.compare_exchange_strong(open, mark_of(shard.waiting_.user));
    };
    wait_until(close, [&] { return shard.closed_by(); }, shard.waiting_.wait);
    opens_.reset(&gate);
    wait_until([&] { return gate.inside.load() == 0; }, [] { return nobody; }, shard.waiting_.wait);
  }

 private:
  struct Open {
    void operator()(Gate* gate) const { gate->closed.store(0); }
  };
  std::unique_ptr<Gate, Open> opens_;
};

class Shard::Locked {
 public:
  Locked(const Shard& shard, int64_t chunk) : lock_(shard.lock(chunk)) {
    const auto take = [&] {
      uint32_t free = 0;
      return lock_.holder.load(std::memory_order_relaxed) == 0 &&
             lock_.holder.compare_exchange_strong(free, mark_of(shard.waiting_.user), std::memory_order_acquire);
    };
    wait_until(take, [&] { return user_of(lock_.holder.load(std::memory_order_relaxed)); }, shard.waiting_.wait);
  }
  ~Locked() { lock_.holder.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

int Shard::closed_by() const noexcept { return user_of(gate().closed.load(std::memory_order_relaxed)); }

Shard::Places::Places(int64_t count, ElementType type, const std::vector<Rule>& rules)
    : chunk(chunk_bytes / element_bytes(type)),
      chunks(divide_up(count, chunk)),
      record(rounded_up(static_cast<int64_t>(sizeof(int64_t) * (1 + rules.size())))),
      values(static_cast<int64_t>(sizeof(Gate)) + chunks * record),
      state(values + rounded_up(count * element_bytes(type))),
      plane(rounded_up(count * element_bytes(state_type(type)))),
      slots(slots_of(rules)),
      bytes(state + plane * slots) {}

int64_t Shard::bytes_needed(int64_t count, ElementType type, const std::vector<Rule>& rules) { return Places(count, type, rules).bytes; }

Shard::Shard(std::shared_ptr<void> owner, std::byte* memory, int64_t count, ElementType type, std::shared_ptr<const std::vector<Rule>> rules,
             Waiting waiting)
    : owner_(std::move(owner)),
      memory_(memory),
      count_(count),
      type_(type),
      element_(element_bytes(type)),
      state_element_(element_bytes(state_type(type))),
      rules_(std::move(rules)),
      waiting_(std::move(waiting)),
      places_(count, type, *rules_) {
  static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share the locks");
  int64_t slot = 0;
  for (const Rule& rule : *rules_) {
    first_slot_.push_back(slot);
    slot += rule.slots;
  }
}

/// Calls f(chunk, begin, count) for the part of each chunk in the range.
template <class Function>
void Shard::for_each_chunk(int64_t begin, int64_t count, Function f) const {
  TW_EXPECTS(begin >= 0 && count >= 0 && begin + count <= count_, "elements ", begin, " to ", begin + count,
             " do not lie in this shard, whose number of elements is ", count_);
  for (int64_t at = begin; at < begin + count;) {
    const int64_t chunk = at / places_.chunk;
    const int64_t here = std::min((chunk + 1) * places_.chunk, begin + count) - at;
    f(chunk, at, here);
    at += here;
  }
}

void Shard::push(size_t rule, int64_t begin, int64_t count, const std::byte* pushed) {
  std::optional<Entry> entry;
  wait_until([&] { return (entry = enter()).has_value(); }, [&] { return closed_by(); }, waiting_.wait);
  push(*entry, rule, begin, count, pushed);
}

void Shard::push(const Entry&, size_t rule, int64_t begin, int64_t count, const std::byte* pushed) {
  const Rule& applied = rules_->at(rule);
  std::vector<std::byte*> state(static_cast<size_t>(applied.slots));
  for_each_chunk(begin, count, [&](int64_t chunk, int64_t at, int64_t here) {
    for (size_t i = 0; i < state.size(); ++i) state[i] = slot(first_slot_[rule] + static_cast<int64_t>(i)) + at * state_element_;
    const Locked locked(*this, chunk);
    int64_t& updated = updates(chunk)[rule];
    applied.apply({values() + at * element_, state, pushed + (at - begin) * element_, here, updated, type_});
    std::atomic_ref(updated).store(updated + 1, std::memory_order_relaxed);
  });
}

int64_t Shard::pushes() const noexcept {
  int64_t all = 0;
  for (size_t rule = 0; rule < rules_->size() && places_.chunks > 0; ++rule) all += std::atomic_ref(updates(0)[rule]).load(std::memory_order_relaxed);
  return all;
}

void Shard::pull(int64_t begin, int64_t count, std::byte* to) const {
  for_each_chunk(begin, count, [&](int64_t chunk, int64_t at, int64_t here) {
    const Locked locked(*this, chunk);
    std::memcpy(to + (at - begin) * element_, values() + at * element_, static_cast<size_t>(here * element_));
  });
}

Shard::Snapshot Shard::snapshot() const {
  const Closed closed(*this);
  const auto copy_of = [&](const std::byte* from, int64_t element) { return std::vector<std::byte>(from, from + count_ * element); };
  Snapshot now{.values = copy_of(values(), element_), .state = {}, .updates = std::vector<int64_t>(rules_->size(), 0)};
  for (int64_t i = 0; i < places_.slots; ++i) now.state.push_back(copy_of(slot(i), state_element_));
  for (int64_t chunk = 0; chunk < places_.chunks; ++chunk) {
    for (size_t rule = 0; rule < rules_->size(); ++rule) now.updates[rule] = std::max(now.updates[rule], updates(chunk)[rule]);
  }
  return now;
}

void Shard::restore(const Snapshot& snapshot) {
  const auto fits = [&](const std::vector<std::byte>& bytes, int64_t element) { return bytes.size() == static_cast<size_t>(count_ * element); };
  TW_EXPECTS(fits(snapshot.values, element_) && snapshot.state.size() == static_cast<size_t>(places_.slots) &&
                 std::ranges::all_of(snapshot.state, [&](const auto& each) { return fits(each, state_element_); }) &&
                 snapshot.updates.size() == rules_->size(),
             "the snapshot to restore does not fit this shard: it has other numbers of values, state slots or rules");
  const Closed closed(*this);
  std::ranges::copy(snapshot.values, values());
  for (int64_t i = 0; i < places_.slots; ++i) std::ranges::copy(snapshot.state[static_cast<size_t>(i)], slot(i));
  for (int64_t chunk = 0; chunk < places_.chunks; ++chunk) std::ranges::copy(snapshot.updates, updates(chunk));
}

}  // namespace tw::parameter_server
