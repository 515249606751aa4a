// SPDX-License-Identifier: Apache-2.0
// Schedules for stages of any length: never longer than those for equal stages, within the same limits, and a function of the times alone.
#include "message_of.hpp"
#include "random_profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <tw/base/contract.hpp>
#include <tw/planning/list_schedule.hpp>
#include <tw/planning/schedule_check.hpp>
#include <tw/planning/schedule_for.hpp>

namespace tw::pipeline {
namespace schedule_by_times_test {

using enum ScheduleKind;
using test::expect_contains;
using testing::message_of;

struct Problem {
  ScheduleKind kind = zero_bubble_v;
  int devices = 1;
  int micro_batches = 1;
  std::vector<PassTimes> times = {};
};

double uniform(std::mt19937& random, double from, double to) { return from + (to - from) * static_cast<double>(random() % 1000) / 1000; }

Problem random_problem(std::mt19937& random) {
  Problem problem{.kind = static_cast<ScheduleKind>(random() % 5), .devices = 1 + static_cast<int>(random() % 6)};
  problem.micro_batches = 1 + static_cast<int>(random() % static_cast<unsigned>(4 * problem.devices));
  const double share = random() % 3 == 0 ? 0 : uniform(random, 0.1, 0.6);  // of the weights' half
  const double transfer = random() % 2 == 0 ? 0 : uniform(random, 0, 0.5);
  for (int stage = 0; stage < problem.devices * stages_per_device(problem.kind); ++stage) {
    const double forward = uniform(random, 0.5, 1.5);
    const double backward = forward * uniform(random, 1, 3);
    problem.times.push_back({.forward = forward, .backward = backward, .weights = share * backward, .transfer = transfer});
  }
  return problem;
}

Schedule fixed(const Problem& problem) { return make_schedule(problem.kind, problem.devices, problem.micro_batches); }
Schedule by_times(const Problem& problem) { return schedule_for(problem.kind, problem.devices, problem.micro_batches, problem.times); }

void expect_at_most(const std::vector<int>& found, const std::vector<int>& limits, const Schedule& schedule) {
  ASSERT_EQ(found.size(), limits.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LE(found[i], limits[i]) << i << '\n' << to_text(schedule);
}

TEST(SchedulesByTimes, AreNeverLongerAndHoldNoMore) {
  std::mt19937 random(3);
  int others = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const Problem problem = random_problem(random);
    const Schedule known = fixed(problem);
    const Schedule found = by_times(problem);
    ASSERT_EQ(problems_of(found, problem.micro_batches), std::vector<std::string>{}) << to_text(found);
    EXPECT_EQ(found.device_of_stages(), known.device_of_stages());
    EXPECT_EQ(found.has_halves(), known.has_halves());
    expect_at_most(max_activations(found), max_activations(known), found);
    expect_at_most(max_waiting(found), max_waiting(known), found);
    expect_at_most(max_held_by_devices(found), max_held_by_devices(known), found);
    EXPECT_LE(simulate(found, problem.times).duration, simulate(known, problem.times).duration) << name_of(problem.kind);
    EXPECT_EQ(found, by_times(problem)) << "the same from equal times";
    if (stages_per_device(problem.kind) == 1) {
      EXPECT_EQ(found, known);
    }
    others += found == known ? 0 : 1;
  }
  EXPECT_GT(others, 200);
}

/// Neither the unit of time nor rounding errors matter, since ranks and machines may add times up in another order.
TEST(SchedulesByTimes, DependOnRatiosOfTimesAlone) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 200; ++trial) {
    const Problem problem = random_problem(random);
    Problem other = problem;
    for (PassTimes& each : other.times) {
      const double scale = 1e-3 * (1 + uniform(random, 0, 1e-12));
      for (double* time : {&each.forward, &each.backward, &each.weights, &each.transfer}) *time *= scale;
    }
    EXPECT_EQ(by_times(other), by_times(problem)) << name_of(problem.kind) << ", trial " << trial;
  }
}

double share_of_work(const Schedule& schedule, const PassTimes& time) {
  const std::vector<PassTimes> times(static_cast<size_t>(schedule.stages), time);
  const double work = schedule.micro_batches * (time.forward + time.backward) * schedule.stages / static_cast<double>(schedule.devices.size());
  return simulate(schedule, times).duration / work;
}

/// Where weights' halves are short, the order for equal halves would leave ZB-V's devices waiting for cotangents.
TEST(SchedulesByTimes, ShortenZeroBubblesWhereHalvesAreUnequal) {
  struct Expected {
    int devices;
    double weights;
    double longest;
  };
  for (const auto& [devices, weights, longest] : {Expected{4, 0, 1.34}, {8, 0, 1.39}, {4, 0.5, 1.14}, {8, 0.5, 1.2}}) {
    const PassTimes time{.forward = 1, .backward = 2, .weights = weights};
    Problem problem{.devices = devices, .micro_batches = 2 * devices};
    problem.times.assign(static_cast<size_t>(2 * devices), time);
    EXPECT_LE(share_of_work(by_times(problem), time), longest) << devices << ' ' << weights;
    EXPECT_GE(share_of_work(fixed(problem), time), 1.1 * longest) << devices << ' ' << weights;
  }
}

/// For equal stages, the default order is as good.
TEST(SchedulesByTimes, OfEqualStagesAreTheDefaultOnes) {
  for (const auto& [name, kind] : schedule_names()) {
    for (int devices = 1; devices <= 8; ++devices) {
      Problem problem{.kind = kind, .devices = devices, .micro_batches = 2 * devices};
      problem.times.assign(static_cast<size_t>(devices * stages_per_device(kind)), {.forward = 0.1, .backward = 0.2, .weights = 0.1});
      EXPECT_EQ(by_times(problem), fixed(problem)) << name << ' ' << devices;
      problem.times.assign(problem.times.size(), {.forward = 0, .backward = 0});
      EXPECT_EQ(by_times(problem), fixed(problem)) << "times are unknown";
    }
  }
}

TEST(SchedulesByTimes, RefuseTimesThatAreNone) {
  const auto refuses = [](const PassTimes& time) {
    EXPECT_THROW(schedule_for(zero_bubble_v, 1, 2, {time, {.forward = 1, .backward = 2, .weights = 1}}), ContractError);
  };
  refuses({.forward = -1});
  refuses({.forward = std::numeric_limits<double>::infinity()});
  refuses({.backward = std::nan("")});
  refuses({.backward = 1, .weights = 2});
  refuses({.transfer = -1});
  EXPECT_THROW(schedule_for(zero_bubble_v, 1, 2, {{.forward = 0, .backward = 0}, {.forward = -1}}), ContractError) << "the first takes no time";
  refuses({.forward = 1e308, .backward = 1e308});
  EXPECT_THROW(schedule_for(zero_bubble_v, 2, 2, {{}, {}}), ContractError) << "two stages on each device";
}

TEST(SchedulesByTimes, AreTheSameForLargeTimes) {
  const auto schedule_of = [](double unit) {
    std::vector<PassTimes> times;
    for (const double scale : {1.0, 2.0, 1.0, 3.0}) times.push_back({.forward = scale * unit, .backward = 2 * scale * unit, .weights = 0});
    return schedule_for(zero_bubble_v, 2, 4, times);
  };
  EXPECT_NE(schedule_of(1), make_schedule(zero_bubble_v, 2, 4)) << "stages are unequal";
  EXPECT_EQ(schedule_of(0x1p1015), schedule_of(1));
}

TEST(ListSchedule, RefusesTimesThatAreNone) {
  const auto refused = [](const PassTimes& time) {
    return message_of([&] { list_schedule({.micro_batches = 2, .device_of_stages = {0}, .times = {time}, .most_held = {1}}); });
  };
  for (const double time : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_contains(refused({.forward = time}), "must be finite and at least 0");
    expect_contains(refused({.backward = time}), "must be finite and at least 0");
    expect_contains(refused({.transfer = time}), "must be finite and at least 0");
  }
  expect_contains(refused({.weights = 3}), "`weights` at most `backward`");
  expect_contains(refused({.forward = 1e308}), "their sum over all micro-batches must be finite");
}

/// All orders of two devices with two stages each, in the order of the begins of their actions, by trying everything.
class AllOrders {
 public:
  AllOrders(const Problem& problem, const Schedule& limits, double enough)
      : times_(problem.times),
        micro_batches_(problem.micro_batches),
        in_halves_(limits.has_halves()),
        device_of_(limits.device_of_stages()),
        activations_(max_activations(limits)),
        waiting_(max_waiting(limits)),
        held_(max_held_by_devices(limits)),
        shortest_(enough) {
    for (size_t s = 0; s < times_.size(); ++s) work_.at(at(s)) += micro_batches_ * (times_[s].forward + times_[s].backward);
    for (auto& each : arrivals_) each.assign(times_.size(), std::vector<double>(static_cast<size_t>(micro_batches_), infinite));
    arrivals_[0].front().assign(static_cast<size_t>(micro_batches_), 0.0);
    counts_.assign(times_.size(), {0, 0, 0});
  }

  /// The least duration, or `enough` if there is no shorter one.
  double run() {
    extend(0, 0, static_cast<int>(times_.size()) * micro_batches_ * (in_halves_ ? 3 : 2));
    return shortest_;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  size_t at(size_t stage) const { return static_cast<size_t>(device_of_[stage]); }

  /// Adds one action after another, each beginning no earlier than the one before; among equal begins, devices ascend.
  void extend(double now, size_t last_device, int left) {
    if (left == 0) {
      shortest_ = std::min(shortest_, std::max(free_[0], free_[1]));
      return;
    }
    if (std::max(free_[0] + work_[0], free_[1] + work_[1]) >= shortest_) return;
    for (size_t stage = 0; stage < times_.size(); ++stage) {
      for (int pass = 0; pass < (in_halves_ ? 3 : 2); ++pass) try_action(stage, pass, now, last_device, left);
    }
  }

  /// @param pass 0: forward, 1: backward or its inputs' half, 2: weights' half
  void try_action(size_t stage, int pass, double now, size_t last_device, int left) {
    auto& [forwards, backwards, weights] = counts_[stage];
    const size_t device = at(stage);
    int& count = pass == 0 ? forwards : pass == 1 ? backwards : weights;
    if (count == micro_batches_ || (pass == 1 && backwards == forwards) || (pass == 2 && weights == backwards)) return;
    if (pass == 0 && (forwards - backwards == activations_[stage] || now_held_[device] == held_[device])) return;
    if (pass == 1 && in_halves_ && backwards - weights == waiting_[stage]) return;
    const auto m = static_cast<size_t>(count);
    const double there = pass == 2 || (pass == 1 && stage + 1 == times_.size()) ? 0 : arrivals_[static_cast<size_t>(pass)][stage][m];
    const double begin = std::max(free_[device], there);
    if (begin == infinite || begin < now || (begin == now && device < last_device)) return;
    const PassTimes& time = times_[stage];
    const double duration = pass == 0 ? time.forward : pass == 2 ? time.weights : time.backward - (in_halves_ ? time.weights : 0);
    const double before = free_[device];
    const int change = pass == 0 ? 1 : pass == (in_halves_ ? 2 : 1) ? -1 : 0;
    free_[device] = begin + duration;
    work_[device] -= duration;
    now_held_[device] += change;
    ++count;
    const bool sends = pass == 0 ? stage + 1 < times_.size() : pass == 1 && stage > 0;
    if (sends) arrivals_[static_cast<size_t>(pass)][pass == 0 ? stage + 1 : stage - 1][m] = begin + duration;
    extend(begin, device, left - 1);
    if (sends) arrivals_[static_cast<size_t>(pass)][pass == 0 ? stage + 1 : stage - 1][m] = infinite;
    --count;
    now_held_[device] -= change;
    work_[device] += duration;
    free_[device] = before;
  }

  const std::vector<PassTimes>& times_;
  int micro_batches_;
  bool in_halves_;
  std::vector<int> device_of_;
  std::vector<int> activations_, waiting_, held_;  // limits
  double shortest_;
  std::array<double, 2> free_{};
  std::array<double, 2> work_{};
  std::array<int, 2> now_held_{};
  std::array<std::vector<std::vector<double>>, 2> arrivals_;  // of inputs and cotangents, by stage and micro-batch
  std::vector<std::array<int, 3>> counts_;                    // by stage: forward passes, backward passes, weights' halves
};

TEST(SchedulesByTimes, AreCloseToTheShortestOfAllOrders) {
  std::mt19937 random(6);
  int shortest = 0;
  double worst = 1;
  double sum = 0;
  constexpr int trials = 60;
  for (int trial = 0; trial < trials; ++trial) {
    Problem problem{.kind = trial % 2 == 0 ? zero_bubble_v : interleaved, .devices = 2, .micro_batches = trial % 2 == 0 ? 2 : 3};
    for (int stage = 0; stage < 4; ++stage) {
      const double weights = problem.kind == interleaved ? 0 : static_cast<double>(random() % 3);
      problem.times.push_back({.forward = 1.0 + random() % 3, .backward = weights + 1.0 + random() % 3, .weights = weights});
    }
    const double ours = simulate(by_times(problem), problem.times).duration;
    const double best = AllOrders(problem, fixed(problem), ours).run();
    shortest += ours == best ? 1 : 0;
    worst = std::max(worst, ours / best);
    sum += ours / best;
  }
  std::cout << shortest << " of " << trials << " are the shortest; mean " << sum / trials << ", worst " << worst << '\n';
  EXPECT_GE(shortest, trials / 2);
  EXPECT_LE(sum / trials, 1.03);
  EXPECT_LE(worst, 1.2);
}

}  // namespace schedule_by_times_test
}  // namespace tw::pipeline
