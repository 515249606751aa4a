// SPDX-License-Identifier: Apache-2.0
// Real channels and exchanges, with threads in place of processes, compared with a single thread. Also run under ThreadSanitizer.
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/random.hpp>
#include <tw/shared_memory/channel.hpp>
#include <vector>

namespace threads_test {

using tw::Call;
using tw::Collective;
using tw::ElementType;
using tw::ReduceOp;
using tw::testing::message_of;
using namespace tw::shared_memory;

// Zeroed, aligned to a pair of cache lines.
std::shared_ptr<std::byte> allocate(int64_t bytes) {
  constexpr std::align_val_t alignment{128};
  auto* memory = static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), alignment));
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return {memory, [](std::byte* begin) { ::operator delete(begin, alignment); }};
}

// Memory shared by the threads of one "node".
struct Node {
  Node(int rank_count, int64_t bytes_per_slot, int64_t bytes_per_share = 64)
      : ranks(rank_count),
        slot_bytes(bytes_per_slot),
        share_bytes(bytes_per_share),
        memory(allocate(Channel::bytes_needed(ranks, slot_bytes))),
        window(allocate(ranks * share_bytes)) {}

  std::shared_ptr<Channel> channel(int rank) const { return std::make_shared<Channel>(memory, memory.get(), rank, ranks, slot_bytes); }

  // Runs `body(rank)` for all ranks concurrently.
  void run(const std::function<void(int rank)>& body) const {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
    for (std::thread& thread : threads) thread.join();
  }

  int ranks;
  int64_t slot_bytes;
  int64_t share_bytes;
  std::shared_ptr<std::byte> memory;
  std::shared_ptr<std::byte> window;  // the shares of all ranks
};

void finish(Exchange& exchange) {
  while (!exchange.advance()) std::this_thread::yield();
}

template <class T>
const std::byte* bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
template <class T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// One collective of all ranks.
struct Job {
  Call call;
  bool in_place = false;
  int64_t flat_bytes = 0;
  std::vector<bool> in_window = {};  // by rank: whether its input is in the window
};

constexpr int64_t max_elements = 700;
constexpr int64_t tensor_bytes = (max_elements + 16) * static_cast<int64_t>(sizeof(double));

std::vector<Job> random_jobs(int ranks, int number) {
  tw::CounterRng random(42, static_cast<uint64_t>(ranks));
  const auto one_of = [&random](auto... choices) { return std::array{choices...}[random.below(sizeof...(choices))]; };
  std::vector<Job> jobs(static_cast<size_t>(number));
  for (Job& job : jobs) {
    Call& call = job.call;
    call.collective = one_of(Collective::barrier, Collective::broadcast, Collective::allreduce, Collective::allreduce, Collective::reduce,
                             Collective::allgather, Collective::reduce_scatter);
    call.op = one_of(ReduceOp::sum, ReduceOp::max);
    call.type = one_of(ElementType::int16, ElementType::float32, ElementType::float64);
    call.count = one_of(0, 1, 2, 15, 64, 65, 333, static_cast<int>(max_elements));
    if (call.collective == Collective::barrier) call.count = 0;
    if (call.collective == Collective::reduce_scatter) call.count -= call.count % ranks;
    if (call.collective == Collective::broadcast || call.collective == Collective::reduce) call.peer = static_cast<int>(random.below(ranks));
    job.in_place = call.collective == Collective::broadcast || (call.collective == Collective::allreduce && random.below(4) > 0);
    job.flat_bytes = one_of(0, 64, 200);
    const uint32_t in_eighths = one_of(0U, 8U, 8U, 6U);  // none, all, and some tensors in the window
    for (int rank = 0; rank < ranks; ++rank) job.in_window.push_back(random.below(8) < in_eighths);
  }
  return jobs;
}

// The input of `rank` to job `number`. Multiples of a seventh, whose sums depend on the order.
template <class T>
T value_of(int number, int rank, int64_t i) {
  return static_cast<T>(static_cast<T>((number * 7919 + rank * 104729 + i * 31) % 251 - 125) / T{7});
}

// One rank's part of a job.
class Task {
 public:
  virtual ~Task() = default;
  virtual bool advance() = 0;
  virtual void check() const = 0;
};

template <class T>
class TypedTask : public Task {
 public:
  // @param window where this rank may put its input
  TypedTask(const std::shared_ptr<Channel>& channel, const Job& job, int number, std::byte* window)
      : job_(job), number_(number), rank_(channel->rank()), ranks_(channel->ranks()) {
    const int64_t count = job.call.count;
    ordinary_.resize(static_cast<size_t>(count));
    input_ = ordinary_.data();
    if (job.in_window[static_cast<size_t>(rank_)])
      input_ = reinterpret_cast<T*>(window) + (number + rank_) % 3;  // at different offsets on different ranks
    for (int64_t i = 0; i < count; ++i) input_[i] = value_of<T>(number, rank_, i);
    output_.resize(expected().size(), T{-77});
    exchange_.emplace(channel, job.call, reinterpret_cast<std::byte*>(input_), job.in_place ? reinterpret_cast<std::byte*>(input_) : bytes(output_),
                      job.flat_bytes);
  }

  bool advance() override { return exchange_->advance(); }

  void check() const override {
    if (job_.call.collective == Collective::reduce && rank_ != job_.call.peer) return;
    const std::vector<T> result = job_.in_place ? std::vector<T>(input_, input_ + job_.call.count) : output_;
    EXPECT_TRUE(result == expected()) << "job " << number_ << ", " << job_.call.describe() << ", on rank " << rank_ << " of " << ranks_;
  }

 private:
  T value(int rank, int64_t i) const { return value_of<T>(number_, rank, i); }

  std::vector<T> expected() const {
    const int64_t count = job_.call.count;
    std::vector<T> result;
    switch (job_.call.collective) {
      case Collective::barrier: break;
      case Collective::broadcast:
        for (int64_t i = 0; i < count; ++i) result.push_back(value(job_.call.peer, i));
        break;
      case Collective::allgather:
        for (int64_t i = 0; i < ranks_ * count; ++i) result.push_back(value(static_cast<int>(i / count), i % count));
        break;
      case Collective::reduce_scatter:
        for (int64_t i = 0; i < count / ranks_; ++i) result.push_back(reduced(rank_ * (count / ranks_) + i));
        break;
      default:
        for (int64_t i = 0; i < count; ++i) result.push_back(reduced(i));
    }
    return result;
  }

  T reduced(int64_t i) const {
    T result = value(0, i);
    for (int rank = 1; rank < ranks_; ++rank) {
      result = job_.call.op == ReduceOp::sum ? static_cast<T>(result + value(rank, i)) : std::max(result, value(rank, i));
    }
    return result;
  }

  Job job_;
  int number_;
  int rank_;
  int ranks_;
  std::vector<T> ordinary_;
  std::vector<T> output_;
  T* input_;
  std::optional<Exchange> exchange_;
};

std::unique_ptr<Task> make_task(const std::shared_ptr<Channel>& channel, const Job& job, int number, std::byte* window) {
  switch (job.call.type) {
    case ElementType::int16: return std::make_unique<TypedTask<int16_t>>(channel, job, number, window);
    case ElementType::float32: return std::make_unique<TypedTask<float>>(channel, job, number, window);
    default: return std::make_unique<TypedTask<double>>(channel, job, number, window);
  }
}

// All ranks start `in_flight` jobs at a time, and each advances them in a different order.
void run_jobs(int ranks, int64_t slot_bytes, const std::vector<Job>& jobs, int in_flight) {
  const Node node(ranks, slot_bytes, in_flight * tensor_bytes);
  node.run([&](int rank) {
    const auto channel = node.channel(rank);
    channel->add_window(node.window, node.share_bytes);
    std::byte* share = node.window.get() + rank * node.share_bytes;
    tw::CounterRng order(7, static_cast<uint64_t>(rank));
    for (size_t begin = 0; begin < jobs.size();) {
      std::vector<std::unique_ptr<Task>> tasks;
      for (int i = 0; i < in_flight && begin < jobs.size(); ++i, ++begin) {
        tasks.push_back(make_task(channel, jobs[begin], static_cast<int>(begin), share + i * tensor_bytes));
      }
      while (!tasks.empty()) {
        const auto task = tasks.begin() + order.below(static_cast<uint32_t>(tasks.size()));
        if ((*task)->advance()) {
          (*task)->check();
          tasks.erase(task);
        } else {
          std::this_thread::yield();
        }
      }
    }
  });
}

class ThreadsTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadsTest, CollectivesEqualOneThread) { run_jobs(GetParam(), 1024, random_jobs(GetParam(), 4000), 1); }

TEST_P(ThreadsTest, CollectivesOfManyRoundsThroughTheSmallestSlotsEqualOneThread) {
  run_jobs(GetParam(), 64 * GetParam(), random_jobs(GetParam(), 2000), 1);
}

TEST_P(ThreadsTest, SeveralInFlightAdvanceInAnyOrder) { run_jobs(GetParam(), 1024, random_jobs(GetParam(), 3000), 5); }

TEST_P(ThreadsTest, CallsThatDifferThrowOnEveryRankAndTheChannelGoesOn) {
  const Node node(GetParam(), 512, 1024);
  const Call call{.collective = Collective::allreduce, .op = ReduceOp::sum, .type = ElementType::float32, .count = 200};  // takes two rounds
  std::vector<Call> others(6, call);
  others[0].count = 20;
  others[1].type = ElementType::int32;
  others[2].op = ReduceOp::max;
  others[3].collective = Collective::allgather;
  others[4] = {.collective = Collective::broadcast, .type = ElementType::float32, .peer = 0, .count = 200};
  others[5] = {.collective = Collective::barrier};
  node.run([&](int rank) {
    const auto channel = node.channel(rank);
    channel->add_window(node.window, node.share_bytes);
    std::vector<float> tensor(200);
    std::vector<float> result(200 * static_cast<size_t>(node.ranks));
    std::byte* share = node.window.get() + rank * node.share_bytes;
    for (const Call& other : others) {
      for (std::byte* place : {bytes(tensor), share}) {  // staged, direct
        std::fill(tensor.begin(), tensor.end(), static_cast<float>(rank));
        const Call& mine = rank == 1 ? other : call;
        Exchange wrong(channel, mine, place, mine.collective == Collective::allgather ? bytes(result) : place, 0);
        Exchange behind(channel, call, bytes(tensor), bytes(tensor), 0);
        const std::string text = message_of([&] {
          while (!wrong.advance()) {
            EXPECT_FALSE(behind.advance());
            std::this_thread::yield();
          }
        });
        const std::string expected = tw::concat("rank 1 has '", other.describe(), "' where rank 0 has '", call.describe(), "'");
        EXPECT_NE(text.find(expected), std::string::npos) << text;
        EXPECT_EQ(text.find("rank 2 has"), std::string::npos) << text;
        finish(behind);
        EXPECT_EQ(tensor, std::vector<float>(200, static_cast<float>(node.ranks * (node.ranks - 1) / 2)));
      }
    }
  });
}

TEST_P(ThreadsTest, TheErrorNamesEveryRankThatDiffers) {
  const Node node(GetParam(), 512);
  node.run([&](int rank) {
    Exchange exchange(node.channel(rank), {.collective = Collective::broadcast, .peer = rank, .count = 0}, nullptr, nullptr, 0);
    const std::string text = message_of([&] { finish(exchange); });
    for (int other = 1; other < node.ranks; ++other) {
      const std::string expected = tw::concat("rank ", other, " has 'broadcast from rank ", other, " of 0 uint8'");
      EXPECT_NE(text.find(expected), std::string::npos) << text;
    }
  });
}

// A marker value that the next two tests put into tensors, to find it where it should not be.
constexpr double trace = 1234.5678;

bool contains_trace(const std::shared_ptr<std::byte>& memory, int64_t byte_count) {
  const auto* begin = reinterpret_cast<const double*>(memory.get());
  return std::find(begin, begin + byte_count / 8, trace) != begin + byte_count / 8;
}

TEST_P(ThreadsTest, WhatLiesInAWindowDoesNotGoThroughTheSlots) {
  constexpr int count = 24;  // a multiple of all numbers of ranks
  for (const bool in_window : {true, false}) {
    const Node node(GetParam(), 512, count * sizeof(double));
    node.run([&](int rank) {
      const auto channel = node.channel(rank);
      channel->add_window(node.window, node.share_bytes);
      std::vector<double> ordinary(count);
      std::vector<double> output(static_cast<size_t>(count * node.ranks));
      std::byte* input = in_window ? node.window.get() + rank * node.share_bytes : bytes(ordinary);
      for (const Collective collective : {Collective::allreduce, Collective::broadcast, Collective::allgather, Collective::reduce_scatter}) {
        const bool in_place = collective == Collective::allreduce || collective == Collective::broadcast;
        std::fill_n(reinterpret_cast<double*>(input), count, trace);
        const Call call{.collective = collective,
                        .op = ReduceOp::max,
                        .type = ElementType::float64,
                        .peer = collective == Collective::broadcast ? 0 : -1,
                        .count = count};
        Exchange exchange(channel, call, input, in_place ? input : bytes(output), 0);
        finish(exchange);
        EXPECT_EQ(in_place ? *reinterpret_cast<double*>(input) : output[0], trace);
      }
    });
    EXPECT_EQ(contains_trace(node.memory, Channel::bytes_needed(node.ranks, node.slot_bytes)), !in_window);
  }
}

TEST_P(ThreadsTest, AWindowThatOneRankHasLetGoIsUsedNoMore) {
  const Node node(GetParam(), 512, 64);
  const Node second(GetParam(), 512, 64);
  node.run([&](int rank) {
    const auto channel = node.channel(rank);
    // Represents each rank's separate mapping.
    std::shared_ptr<std::byte> mapped(node.window.get(), [](std::byte*) {});
    EXPECT_EQ(channel->add_window(mapped, node.share_bytes), 0);
    double ordinary = 1;
    std::byte* mine = node.window.get() + rank * node.share_bytes;
    if (rank == 0) {
      mapped.reset();
      mine = reinterpret_cast<std::byte*>(&ordinary);
    }
    const Call call{.collective = Collective::allreduce, .type = ElementType::float64, .count = 1};
    *reinterpret_cast<double*>(mine) = 1;
    Exchange exchange(channel, call, mine, mine, 0);
    finish(exchange);
    EXPECT_EQ(*reinterpret_cast<double*>(mine), node.ranks);

    // The numbering of windows still agrees.
    EXPECT_EQ(channel->add_window(second.window, second.share_bytes), 1);
    mine = second.window.get() + rank * second.share_bytes;
    *reinterpret_cast<double*>(mine) = trace;
    const Call sum_of_traces{.collective = Collective::allreduce, .op = ReduceOp::max, .type = ElementType::float64, .count = 1};
    Exchange direct(channel, sum_of_traces, mine, mine, 0);
    finish(direct);
    EXPECT_EQ(*reinterpret_cast<double*>(mine), trace);
  });
  EXPECT_FALSE(contains_trace(node.memory, Channel::bytes_needed(node.ranks, node.slot_bytes)));
}

TEST_P(ThreadsTest, LastSeenTellsWhatEveryRankDoes) {
  const Node node(GetParam(), 512);
  const auto start = std::chrono::steady_clock::now();
  constexpr uint64_t calls = 50;
  node.run([&](int rank) {
    const auto channel = node.channel(rank);
    const auto barrier = [&](const std::function<void()>& meanwhile) {
      Exchange exchange(channel, {.collective = Collective::barrier}, nullptr, nullptr, 0);
      while (!exchange.advance()) {
        meanwhile();
        std::this_thread::yield();
      }
    };
    std::vector<uint64_t> seen_calls(static_cast<size_t>(node.ranks));
    const auto look_at_all = [&] {  // while they record
      for (int other = 0; other < node.ranks; ++other) {
        const uint64_t now = channel->last_seen(other).calls;
        EXPECT_GE(now, seen_calls[static_cast<size_t>(other)]);
        EXPECT_LE(now, calls);
        seen_calls[static_cast<size_t>(other)] = now;
      }
    };
    const auto call_of = [](int who, uint64_t number) {
      return Call{.collective = Collective::send, .type = ElementType::float32, .peer = who, .count = static_cast<int64_t>(number)};
    };
    for (uint64_t number = 1; number <= calls; ++number) {
      channel->record(call_of(rank, number), number);
      barrier(look_at_all);
      for (int other = 0; other < node.ranks; ++other) {
        const tw::LastSeen seen = channel->last_seen(other);
        EXPECT_EQ(seen.calls, number);
        EXPECT_EQ(seen.finished, number - 1);
        EXPECT_EQ(seen.call, call_of(other, number));
        EXPECT_GE(seen.idle.count(), 0);
        EXPECT_LE(seen.idle, std::chrono::steady_clock::now() - start);
      }
      barrier(look_at_all);
      channel->record_end(number);
      barrier(look_at_all);
      for (int other = 0; other < node.ranks; ++other) {
        const tw::LastSeen seen = channel->last_seen(other);
        EXPECT_EQ(seen.calls, number);
        EXPECT_EQ(seen.finished, number);
        EXPECT_EQ(seen.call, call_of(other, number));
      }
      barrier(look_at_all);
    }
    EXPECT_FALSE(channel->last_seen((rank + 1) % node.ranks).has_released);
    barrier(look_at_all);
    channel->record_release();
    barrier(look_at_all);
    EXPECT_TRUE(channel->last_seen((rank + 1) % node.ranks).has_released);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadsTest, ::testing::Values(2, 3, 4), ::testing::PrintToStringParamName());

TEST(Channel, OneRankAloneNeedsNobody) { run_jobs(1, 64, random_jobs(1, 100), 3); }

TEST(Channel, FindsWhatLiesInMyShareOfAWindow) {
  const Node node(2, 128, 256);
  const auto channel = node.channel(1);
  auto window = allocate(512);
  EXPECT_EQ(channel->add_window(node.window, 256), 0);
  EXPECT_EQ(channel->add_window(window, 256), 1);
  const std::byte* share = window.get() + 256;
  EXPECT_EQ(channel->find(share, 256), (WindowPlace{1, 0}));
  EXPECT_EQ(channel->find(share + 56, 200), (WindowPlace{1, 56}));
  EXPECT_EQ(channel->find(share + 57, 200), WindowPlace{}) << "it ends outside";
  EXPECT_EQ(channel->find(share - 1, 8), WindowPlace{}) << "it begins in another rank's share";
  EXPECT_EQ(channel->find(node.window.get() + 256, 8), (WindowPlace{0, 0}));
  window.reset();
  EXPECT_EQ(channel->find(share, 8), WindowPlace{}) << "the memory is gone";
  EXPECT_EQ(channel->add_window(allocate(512), 256), 2) << "numbers are not used again";
}

TEST(Channel, WantsSlotsOf64BytesARank) {
  EXPECT_NE(message_of([] { Node(3, 128).channel(0); }).find("64 for each of 3 ranks, got 128"), std::string::npos);
  EXPECT_NE(message_of([] { Node(1, 100).channel(0); }).find("multiple of 64"), std::string::npos);
}

}  // namespace threads_test
