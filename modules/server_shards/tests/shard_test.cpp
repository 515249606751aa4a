// SPDX-License-Identifier: Apache-2.0
// A shard that many threads change concurrently: no update is lost, no chunk is half changed, and a snapshot falls between two pushes. Processes do
// the same through shared memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <tw/base/contract.hpp>
#include <tw/server_shards/shard.hpp>

namespace tw::parameter_server {
namespace shard_test {

constexpr int64_t two_chunks_and_a_bit = 2 * Shard::chunk_bytes / 8 + 5;

std::shared_ptr<void> memory_for(int64_t count, const std::vector<Rule>& rules) {
  const auto bytes = static_cast<size_t>(Shard::bytes_needed(count, ElementType::float64, rules));
  const std::shared_ptr<void> memory(std::aligned_alloc(64, bytes), std::free);
  std::fill_n(static_cast<std::byte*>(memory.get()), bytes, std::byte{0});
  return memory;
}

Shard shard_in(const std::shared_ptr<void>& memory, int64_t count, std::vector<Rule> rules, Shard::Waiting waiting = {}) {
  auto* const begin = static_cast<std::byte*>(memory.get());
  return {memory, begin, count, ElementType::float64, std::make_shared<const std::vector<Rule>>(std::move(rules)), std::move(waiting)};
}

/// A shard in new memory.
Shard shard_of(int64_t count, const std::vector<Rule>& rules, Shard::Waiting waiting = {}) {
  return shard_in(memory_for(count, rules), count, rules, std::move(waiting));
}

const std::byte* bytes_of(const std::vector<double>& values) { return reinterpret_cast<const std::byte*>(values.data()); }

std::vector<double> values_of(const Shard& shard) {
  std::vector<double> values(static_cast<size_t>(shard.count()));
  shard.pull(0, shard.count(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

template <class Function>
void in_threads(int threads, Function f) {
  std::vector<std::jthread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back([&f, i] { f(i); });
}

TEST(Shard, LosesNoUpdate) {
  Shard shard = shard_of(two_chunks_and_a_bit, {rules::add()});
  constexpr int threads = 4;
  constexpr int pushes = 200;
  in_threads(threads, [&](int thread) {
    const std::vector<double> ones(static_cast<size_t>(shard.count()), thread + 1);
    for (int i = 0; i < pushes; ++i) shard.push(0, 0, shard.count(), bytes_of(ones));
  });
  for (const double each : values_of(shard)) ASSERT_EQ(each, pushes * (1 + 2 + 3 + 4));  // integers: exact
}

TEST(Shard, GivesChunksAsTheyWereAtOneTime) {
  Shard shard = shard_of(Shard::chunk_bytes / 8, {rules::copy()});
  std::atomic<bool> over = false;
  std::jthread writer([&] {
    for (int i = 1; !over; ++i) {
      const std::vector<double> all(static_cast<size_t>(shard.count()), i);
      shard.push(0, 0, shard.count(), bytes_of(all));
    }
  });
  for (int i = 0; i < 300; ++i) {
    const std::vector<double> seen = values_of(shard);
    for (const double each : seen) ASSERT_EQ(each, seen.front());
  }
  over = true;
}

TEST(Shard, SnapshotsLieBetweenPushes) {
  Shard shard = shard_of(two_chunks_and_a_bit, {rules::momentum({.lr = 1, .momentum = 0.5})});
  std::atomic<bool> over = false;
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 2; ++writer) {
      writers.emplace_back([&] {
        const std::vector<double> ones(static_cast<size_t>(shard.count()), 1);
        while (!over) shard.push(0, 0, shard.count(), bytes_of(ones));
      });
    }
    for (int i = 0; i < 100; ++i) {
      const Shard::Snapshot now = shard.snapshot();
      const auto* x = reinterpret_cast<const double*>(now.values.data());
      const auto* m = reinterpret_cast<const double*>(now.state.at(0).data());
      for (int64_t e = 1; e < shard.count(); ++e) {
        ASSERT_EQ(x[e], x[0]);  // each push treats all elements the same
        ASSERT_EQ(m[e], m[0]);
      }
    }
    over = true;
  }
  const Shard::Snapshot last = shard.snapshot();
  Shard other = shard_of(two_chunks_and_a_bit, {rules::momentum({.lr = 1, .momentum = 0.5})});
  other.restore(last);
  EXPECT_EQ(values_of(other), values_of(shard));
  EXPECT_EQ(other.snapshot().state, last.state);
  EXPECT_EQ(other.snapshot().updates, last.updates);
}

TEST(Shard, SnapshotsWaitForPushesThatComeInParts) {
  constexpr int64_t part = Shard::chunk_bytes / 8;
  Shard::Wait wait = [](const auto&, int) { throw std::runtime_error("nobody comes any more"); };
  Shard shard = shard_of(2 * part, {rules::add()}, {.wait = [&](const auto& happened, int holder) { wait(happened, holder); }});
  const std::vector<double> ones(static_cast<size_t>(part), 1);
  std::optional<Shard::Entry> entry = shard.enter();
  ASSERT_TRUE(entry.has_value());
  shard.push(*entry, 0, 0, part, bytes_of(ones));
  EXPECT_THROW(shard.snapshot(), std::runtime_error);
  EXPECT_TRUE(shard.enter().has_value()) << "it is open again";
  int rounds = 0;
  wait = [&](const auto& happened, int holder) {
    EXPECT_EQ(holder, Shard::nobody) << "several pushes may be inside";
    for (; !happened(); ++rounds) {
      EXPECT_FALSE(shard.enter().has_value());
      if (rounds < 3) continue;
      shard.push(*entry, 0, part, part, bytes_of(ones));
      entry.reset();
    }
  };
  const Shard::Snapshot now = shard.snapshot();
  EXPECT_EQ(rounds, 4);
  for (int64_t i = 0; i < shard.count(); ++i) ASSERT_EQ(reinterpret_cast<const double*>(now.values.data())[i], 1);
  EXPECT_EQ(now.updates, (std::vector<int64_t>{1}));
}

// A user is stopped while it holds a lock: the others' waits report its number.
TEST(Shard, WaitsNameWhoHoldsTheLock) {
  std::atomic<bool> inside = false;
  std::atomic<int> named = Shard::nobody;
  Rule slow{.name = "slow", .apply = [&](const Chunk& s) {
              inside = true;
              while (s.updates == 0 && named == Shard::nobody) std::this_thread::yield();
            }};
  const auto memory = memory_for(3, {slow});
  Shard first = shard_in(memory, 3, {slow}, {.user = 7});
  Shard second = shard_in(memory, 3, {slow}, {.user = 2, .wait = [&](const auto& happened, int holder) {
                                                named = holder;
                                                while (!happened()) std::this_thread::yield();
                                              }});
  const std::vector<double> ones(3, 1);
  const std::jthread push([&] { first.push(0, 0, 3, bytes_of(ones)); });
  while (!inside) std::this_thread::yield();
  second.push(0, 0, 3, bytes_of(ones));
  EXPECT_EQ(named, 7);
}

TEST(Shard, CountsUpdatesForEachRule) {
  std::vector<int64_t> seen;
  Rule counting{.name = "counting", .apply = [&](const Chunk& s) { seen.push_back(s.updates); }};
  Shard shard = shard_of(two_chunks_and_a_bit, {counting, rules::zero()});
  const std::vector<double> zeros(static_cast<size_t>(shard.count()));
  shard.push(0, 0, shard.count(), bytes_of(zeros));
  shard.push(1, 0, shard.count(), bytes_of(zeros));
  shard.push(0, 0, shard.count(), bytes_of(zeros));
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
}

TEST(Shard, LivesOnWhenARuleThrows) {
  Rule moody{.name = "moody", .apply = [](const Chunk& s) {
               if (s.updates == 0 && *reinterpret_cast<const double*>(s.pushed) < 0) throw std::runtime_error("negative");
               rules::add().apply(s);
             }};
  Shard shard = shard_of(3, {moody});
  const std::vector<double> minus(3, -1);
  const std::vector<double> plus(3, 1);
  EXPECT_THROW(shard.push(0, 0, 3, bytes_of(minus)), std::runtime_error);
  shard.push(0, 0, 3, bytes_of(plus));  // no lock is held
  EXPECT_EQ(values_of(shard), plus);
  EXPECT_EQ(shard.snapshot().updates.at(0), 1);
}

TEST(Shard, RefusesWhatIsNotItsOwn) {
  Shard shard = shard_of(3, {rules::add()});
  const std::vector<double> four(4);
  EXPECT_THROW(shard.push(0, 0, 4, bytes_of(four)), ContractError);
  EXPECT_THROW(shard.push(0, -1, 1, bytes_of(four)), ContractError);
  EXPECT_THROW(shard.restore(shard_of(4, {rules::add()}).snapshot()), ContractError);
}

TEST(Shard, MayBeEmpty) {
  Shard shard = shard_of(0, {rules::add()});
  shard.push(0, 0, 0, nullptr);
  EXPECT_TRUE(values_of(shard).empty());
}

}  // namespace shard_test
}  // namespace tw::parameter_server
