// SPDX-License-Identifier: Apache-2.0
#include <tw/server_shards/shard.hpp>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tw/base/contract.hpp>

namespace tw::parameter_server {
namespace {

constexpr int64_t line = 64;
constexpr int spins_before_yield = 64;

int64_t rounded_up(int64_t bytes) { return (bytes + line - 1) / line * line; }

int64_t slots_of(const std::vector<Rule>& rules) {
  int64_t slots = 0;
  for (const Rule& rule : rules) slots += rule.slots;
  return slots;
}

/// Until `happened`; others get the core, who may be the ones to wait for.
template <class Condition>
void wait_until(Condition happened) {
  for (int spins = 0; !happened(); ++spins) {
    if (spins >= spins_before_yield) sched_yield();
  }
}

}  // namespace

/// A push is inside the gate.
class Shard::Entered {
 public:
  explicit Entered(Gate& gate) : gate_(gate) {
    while (true) {
      gate_.inside.fetch_add(1);
      if (gate_.closed.load() == 0) return;
      gate_.inside.fetch_sub(1);
      wait_until([&] { return gate_.closed.load(std::memory_order_relaxed) == 0; });
    }
  }
  ~Entered() { gate_.inside.fetch_sub(1, std::memory_order_release); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Gate& gate_;
};

/// No push is inside, and none comes in.
class Shard::Closed {
 public:
  explicit Closed(Gate& gate) : gate_(gate) {
    wait_until([&] { return gate_.closed.exchange(1) == 0; });
    wait_until([&] { return gate_.inside.load() == 0; });
  }
  ~Closed() { gate_.closed.store(0); }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;

 private:
  Gate& gate_;
};

class Shard::Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) {
    wait_until([&] { return lock_.taken.load(std::memory_order_relaxed) == 0 && lock_.taken.exchange(1, std::memory_order_acquire) == 0; });
  }
  ~Locked() { lock_.taken.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

Shard::Places::Places(int64_t count, ElementType type, const std::vector<Rule>& rules)
    : stretch(stretch_bytes / element_bytes(type)),
      stretches((count + stretch - 1) / stretch),
      record(rounded_up(static_cast<int64_t>(sizeof(int64_t) * (1 + rules.size())))),
      values(static_cast<int64_t>(sizeof(Gate)) + stretches * record),
      plane(rounded_up(count * element_bytes(type))),
      slots(slots_of(rules)),
      bytes(values + plane * (1 + slots)) {}

int64_t Shard::bytes_needed(int64_t count, ElementType type, const std::vector<Rule>& rules) { return Places(count, type, rules).bytes; }

Shard::Shard(std::shared_ptr<void> owner, std::byte* memory, int64_t count, ElementType type, std::shared_ptr<const std::vector<Rule>> rules)
    : owner_(std::move(owner)),
      memory_(memory),
      count_(count),
      type_(type),
      element_(element_bytes(type)),
      rules_(std::move(rules)),
      places_(count, type, *rules_) {
  static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share the locks");
  int64_t slot = 0;
  for (const Rule& rule : *rules_) {
    first_slot_.push_back(slot);
    slot += rule.slots;
  }
}

/// Calls f(stretch, begin, count) for what of each stretch lies in the range.
template <class Function>
void Shard::for_each_stretch(int64_t begin, int64_t count, Function f) const {
  TW_EXPECTS(begin >= 0 && count >= 0 && begin + count <= count_, "elements ", begin, " to ", begin + count, " of a shard of ", count_);
  for (int64_t at = begin; at < begin + count;) {
    const int64_t stretch = at / places_.stretch;
    const int64_t here = std::min((stretch + 1) * places_.stretch, begin + count) - at;
    f(stretch, at, here);
    at += here;
  }
}

void Shard::push(size_t rule, int64_t begin, int64_t count, const std::byte* pushed) {
  const Rule& applied = rules_->at(rule);
  std::vector<std::byte*> state(static_cast<size_t>(applied.slots));
  const Entered entered(gate());
  for_each_stretch(begin, count, [&](int64_t stretch, int64_t at, int64_t here) {
    for (size_t slot = 0; slot < state.size(); ++slot) state[slot] = plane(1 + first_slot_[rule] + static_cast<int64_t>(slot)) + at * element_;
    const Locked locked(lock(stretch));
    int64_t& updated = updates(stretch)[rule];
    applied.apply({plane(0) + at * element_, state, pushed + (at - begin) * element_, here, updated, type_});
    std::atomic_ref(updated).store(updated + 1, std::memory_order_relaxed);
  });
}

int64_t Shard::pushes() const noexcept {
  int64_t all = 0;
  for (size_t rule = 0; rule < rules_->size() && places_.stretches > 0; ++rule) all += std::atomic_ref(updates(0)[rule]).load(std::memory_order_relaxed);
  return all;
}

void Shard::pull(int64_t begin, int64_t count, std::byte* to) const {
  for_each_stretch(begin, count, [&](int64_t stretch, int64_t at, int64_t here) {
    const Locked locked(lock(stretch));
    std::memcpy(to + (at - begin) * element_, plane(0) + at * element_, static_cast<size_t>(here * element_));
  });
}

Shard::Snapshot Shard::snapshot() const {
  const Closed closed(gate());
  const auto copy_of = [&](int64_t index) { return std::vector<std::byte>(plane(index), plane(index) + count_ * element_); };
  Snapshot now{.values = copy_of(0), .state = {}, .updates = std::vector<int64_t>(rules_->size(), 0)};
  for (int64_t slot = 0; slot < places_.slots; ++slot) now.state.push_back(copy_of(1 + slot));
  for (int64_t stretch = 0; stretch < places_.stretches; ++stretch) {
    for (size_t rule = 0; rule < rules_->size(); ++rule) now.updates[rule] = std::max(now.updates[rule], updates(stretch)[rule]);
  }
  return now;
}

void Shard::restore(const Snapshot& snapshot) {
  const auto bytes = static_cast<size_t>(count_ * element_);
  TW_EXPECTS(
      snapshot.values.size() == bytes && snapshot.state.size() == static_cast<size_t>(places_.slots) && snapshot.updates.size() == rules_->size(),
      "what is restored is not that of this shard");
  const Closed closed(gate());
  std::memcpy(plane(0), snapshot.values.data(), bytes);
  for (int64_t slot = 0; slot < places_.slots; ++slot) std::memcpy(plane(1 + slot), snapshot.state[static_cast<size_t>(slot)].data(), bytes);
  for (int64_t stretch = 0; stretch < places_.stretches; ++stretch) std::copy(snapshot.updates.begin(), snapshot.updates.end(), updates(stretch));
}

}  // namespace tw::parameter_server
