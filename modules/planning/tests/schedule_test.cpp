// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as values: complete, free of deadlock, with the duration and the number of activations that the formulas predict.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/planning/list_schedule.hpp>
#include <tw/planning/schedule_check.hpp>
#include <tw/planning/simulation.hpp>

namespace tw::pipeline {
namespace schedule_test {

constexpr int max_stages = 12;
constexpr int max_micro_batches = 24;

template <class F>
void for_all(const F& f) {
  for (int stages = 1; stages <= max_stages; ++stages) {
    for (int m = 1; m <= max_micro_batches; ++m) f(stages, m);
  }
}

std::vector<PassTimes> equal_times(int stages, double forward, double backward) {
  return std::vector<PassTimes>(static_cast<size_t>(stages), PassTimes{.forward = forward, .backward = backward});
}

TEST(Schedules, RunToTheirEndWithTheSmallestChannels) {
  for_all([](int stages, int m) {
    for (const Schedule& schedule : {gpipe(stages, m), one_forward_one_backward(stages, m), zero_bubble_h1(stages, m)}) {
      EXPECT_EQ(problems_of(schedule, 1), std::vector<std::string>{}) << stages << " stages, " << m << " micro-batches\n" << to_text(schedule);
    }
  });
}

/// Bubble (p - 1)(F + B) of every device; m in flight for GPipe, min(m, p - i) for 1F1B.
TEST(Schedules, HaveTheBubblesAndActivationsOfTheFormulas) {
  constexpr double forward = 1;
  constexpr double backward = 2.5;
  for_all([&](int stages, int m) {
    for (const bool is_gpipe : {true, false}) {
      const Schedule schedule = is_gpipe ? gpipe(stages, m) : one_forward_one_backward(stages, m);
      const Simulation simulation = simulate(schedule, equal_times(stages, forward, backward));
      const std::vector<int> in_flight = max_in_flight(schedule);
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_DOUBLE_EQ(simulation.bubble(static_cast<size_t>(stage)), (stages - 1) * (forward + backward)) << to_text(schedule);
        EXPECT_EQ(in_flight[static_cast<size_t>(stage)], is_gpipe ? m : std::min(m, stages - stage)) << to_text(schedule);
      }
    }
  });
}

/// Bubble (p - 1) max(F, F + B - 2 W) with as many micro-batches as stages or more, never longer than 1F1B's; no stage holds more than 1F1B's first.
TEST(Schedules, InHalvesHaveTheBubbleAndActivationsOfTheFormulas) {
  for (const auto& [forward, inputs, weights] :
       {std::tuple(1.0, 1.0, 1.0), std::tuple(1.0, 1.1, 0.8), std::tuple(1.0, 1.0, 2.0), std::tuple(1.0, 0.5, 1.0), std::tuple(2.0, 1.0, 1.0)}) {
    for (int stages = 1; stages <= 16; ++stages) {
      for (const int m : {1, 2, 3, 5, 8, 16, 17, 64}) {
        const Schedule schedule = zero_bubble_h1(stages, m);
        const PassTimes time{.forward = forward, .backward = inputs + weights, .weights = weights};
        const std::vector<PassTimes> times(static_cast<size_t>(stages), time);
        const double duration = simulate(schedule, times).duration;
        const double work = m * (forward + inputs + weights);
        const double bubble = (stages - 1) * std::max(forward, forward + inputs - weights);
        EXPECT_TRUE(m < stages || std::abs(duration - work - bubble) < 1e-9) << stages << " stages, " << m << " micro-batches: " << duration - work;
        EXPECT_LE(duration, simulate(one_forward_one_backward(stages, m), times).duration + 1e-9) << stages << ' ' << m;
        for (const int held : max_in_flight(schedule)) EXPECT_LE(held, std::min(stages, m));
        for (int stage = 0; stage < stages; ++stage) {
          EXPECT_EQ(max_activations(schedule)[static_cast<size_t>(stage)], std::min(m, stages - stage));
          EXPECT_EQ(max_waiting(schedule)[static_cast<size_t>(stage)], std::min(m, stage + 1));
        }
      }
    }
  }
}

/// For each device, of how many (stage, micro-batch) it holds data at a time.
std::vector<int> held_by_devices(const Schedule& schedule) {
  std::vector<int> most;
  for (const std::vector<Action>& device : schedule.devices) {
    int now = 0;
    most.push_back(0);
    for (const Action& action : device) {
      now += (action.is_forward() ? 1 : 0) - (action.frees() ? 1 : 0);
      most.back() = std::max(most.back(), now);
    }
  }
  return most;
}

/// Bubble (p - 1)(F + B) of one of `v` stages, for a multiple of p micro-batches; no more in flight than the paper's, and never longer than 1F1B of
/// large stages.
TEST(Schedules, InterleavedHaveTheBubbleAndActivationsOfTheFormulas) {
  constexpr double forward = 1;
  constexpr double backward = 2;
  for (const auto& [p, v] : {std::pair(1, 2), {2, 2}, {2, 3}, {3, 2}, {4, 2}, {4, 4}, {8, 2}, {16, 2}}) {
    for (const int m : {1, 2, 3, p - 1, p, p + 1, 2 * p, 2 * p + 3, 4 * p, 64}) {
      if (m < 1) continue;
      const Schedule schedule = interleaved(p, v, m);
      EXPECT_EQ(problems_of(schedule, m), std::vector<std::string>{}) << p << ' ' << v << ' ' << m;
      const double bubble = simulate(schedule, equal_times(p * v, forward, backward)).duration - m * v * (forward + backward);
      if (m % p == 0) {
        EXPECT_NEAR(bubble, (p - 1) * (forward + backward), 1e-9) << p << ' ' << v << ' ' << m;
      }
      EXPECT_LE(bubble, (p - 1) * v * (forward + backward) + 1e-9) << p << ' ' << v << ' ' << m;
      const std::vector<int> held = held_by_devices(schedule);
      EXPECT_EQ(max_held_by_devices(schedule), held);
      for (int d = 0; d < p; ++d) EXPECT_LE(held[static_cast<size_t>(d)], 2 * (p - 1 - d) + (v - 1) * p + 1) << p << ' ' << v << ' ' << m;
    }
  }
}

/// Two devices with two stages each, and two and four micro-batches, by hand.
TEST(Schedules, InterleavedPassInGroups) {
  EXPECT_EQ(to_text(interleaved(2, 2, 2)),
            "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n"
            "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1\n");
  EXPECT_EQ(to_text(interleaved(2, 2, 4)),
            "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3\n"
            "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3\n");
}

/// The last device waits (p - 1) F for its first input, F of one stage; from 2 p - 1 micro-batches on, little more is idle, and at most as much is
/// held as by 1F1B's first device.
TEST(Schedules, InVHaveLittleMoreBubbleThanTheFirstInputNeeds) {
  for (int p = 1; p <= 16; ++p) {
    std::vector<int> counts{1, 2, p, 64};
    for (int m = 2 * p - 1; m <= 4 * p; m += 3) counts.push_back(m);
    for (const int m : counts) {
      const Schedule schedule = zero_bubble_v(p, m);
      EXPECT_EQ(problems_of(schedule, m), std::vector<std::string>{}) << p << ' ' << m;
      for (const int held : held_by_devices(schedule)) EXPECT_LE(held, 2 * p) << p << ' ' << m;
      const PassTimes time{.forward = 1, .backward = 2, .weights = 1};
      const double duration = simulate(schedule, std::vector<PassTimes>(static_cast<size_t>(2 * p), time)).duration;
      const double bubble = duration - 6.0 * m;
      EXPECT_GE(bubble, p - 1);
      if (m >= 2 * p - 1) {
        EXPECT_LE(bubble, 1.25 * (p - 1)) << p << ' ' << m;
      }
      // Never longer than 1F1B with stages of twice the size.
      EXPECT_LE(duration, simulate(one_forward_one_backward(p, m), equal_times(p, 2, 4)).duration) << p << ' ' << m;
    }
  }
}

/// On 8 devices, of 1F1B's bubble: less than half with halves, and in V the sixth that the first input takes.
TEST(Schedules, WithoutBubblesOnEightDevices) {
  for (const int m : {16, 24, 32, 64}) {
    const double work = 6.0 * m;
    const auto bubble = [&](const Schedule& schedule, const PassTimes& time) {
      return simulate(schedule, std::vector<PassTimes>(static_cast<size_t>(schedule.stages), time)).duration - work;
    };
    const double whole = bubble(one_forward_one_backward(8, m), {.forward = 2, .backward = 4});
    EXPECT_DOUBLE_EQ(whole, 7 * 6);
    EXPECT_LT(bubble(zero_bubble_h1(8, m), {.forward = 2, .backward = 4, .weights = 2}), whole / 2) << m;
    EXPECT_LE(bubble(zero_bubble_v(8, m), {.forward = 1, .backward = 2, .weights = 1}), 1.03 * whole / 6) << m;
  }
}

/// A list schedule of one stage on each device is as short as 1F1B, and holds no more.
TEST(Schedules, FromListsAreAsShortAsTheKnownOnes) {
  for (int p = 1; p <= 8; ++p) {
    for (const int m : {1, 2, 5, 8, 17}) {
      ListOptions options{.micro_batches = m};
      for (int stage = 0; stage < p; ++stage) {
        options.device_of_stages.push_back(stage);
        options.most_held.push_back(p - stage);
        options.times.push_back({.forward = 1, .backward = 2});
      }
      const Schedule schedule = list_schedule(options);
      EXPECT_EQ(problems_of(schedule, m), std::vector<std::string>{});
      EXPECT_DOUBLE_EQ(simulate(schedule, options.times).duration, simulate(one_forward_one_backward(p, m), options.times).duration) << p << ' ' << m;
      EXPECT_EQ(max_in_flight(schedule), max_in_flight(one_forward_one_backward(p, m))) << p << ' ' << m;
    }
  }
}

/// Any placement, times and limits: complete, within the limits, and without deadlock.
TEST(Schedules, FromListsRunForAnyPlacement) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 300; ++trial) {
    const int devices = 1 + below(4);
    const int stages = devices + below(7);
    ListOptions options{.micro_batches = 1 + below(9), .in_halves = below(2) == 1};
    for (int stage = 0; stage < stages; ++stage) {
      options.device_of_stages.push_back(stage < devices ? stage : below(devices));
      const double weights = options.in_halves ? 1 + below(3) : 0;
      options.times.push_back({.forward = 1.0 + below(3), .backward = weights + 1 + below(3), .weights = weights, .transfer = 0.5 * below(3)});
    }
    std::shuffle(options.device_of_stages.begin(), options.device_of_stages.end(), random);
    for (int device = 0; device < devices; ++device) {
      options.most_held.push_back(static_cast<int>(std::ranges::count(options.device_of_stages, device)) + below(9));
    }
    const bool limits_stages = trial % 2 == 1;
    for (int stage = 0; limits_stages && stage < stages; ++stage) {
      options.most_activations.push_back(1 + below(4));
      options.most_waiting.push_back(1 + below(3));
    }
    const Schedule schedule = list_schedule(options);
    EXPECT_EQ(problems_of(schedule, options.micro_batches), std::vector<std::string>{}) << to_text(schedule);
    EXPECT_EQ(schedule.device_of_stages(), options.device_of_stages);
    EXPECT_EQ(schedule.has_halves(), options.in_halves);
    const std::vector<int> held = held_by_devices(schedule);
    for (size_t d = 0; d < held.size(); ++d) EXPECT_LE(held[d], options.most_held[d]);
    for (size_t stage = 0; limits_stages && stage < options.times.size(); ++stage) {
      EXPECT_LE(max_activations(schedule)[stage], options.most_activations[stage]) << to_text(schedule);
      EXPECT_LE(max_waiting(schedule)[stage], options.in_halves ? options.most_waiting[stage] : 0) << to_text(schedule);
    }
  }
}

TEST(Schedules, FromListsRefuseOptionsThatDoNotMatch) {
  const ListOptions good{.micro_batches = 2, .device_of_stages = {0, 1}, .times = {{}, {}}, .most_held = {1, 1}};
  EXPECT_NO_THROW(list_schedule(good));
  const auto refuses = [&](const auto& change) {
    ListOptions options = good;
    change(options);
    EXPECT_THROW(list_schedule(options), ContractError);
  };
  refuses([](ListOptions& o) { o.micro_batches = 0; });
  refuses([](ListOptions& o) { o.device_of_stages = {}; });
  refuses([](ListOptions& o) { o.device_of_stages = {0, 2}; });
  refuses([](ListOptions& o) { o.device_of_stages = {0, -1}; });
  refuses([](ListOptions& o) { o.device_of_stages = {0, 0}; });
  refuses([](ListOptions& o) { o.times = {{}}; });
  refuses([](ListOptions& o) { o.most_held = {1, 0}; });
  refuses([](ListOptions& o) { o.most_activations = {1}; });
  refuses([](ListOptions& o) { o.most_waiting = {1, 0}; });
}

/// Four stages and eight micro-batches, by hand.
TEST(Schedules, InHalvesDelayWeightsByTheStage) {
  EXPECT_EQ(to_text(zero_bubble_h1(4, 8)),
            "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7\n"
            "1F0 1F1 1F2 1I0 1F3 1I1 1W0 1F4 1I2 1W1 1F5 1I3 1W2 1F6 1I4 1W3 1F7 1I5 1W4 1I6 1W5 1I7 1W6 1W7\n"
            "2F0 2F1 2I0 2F2 2I1 2F3 2I2 2W0 2F4 2I3 2W1 2F5 2I4 2W2 2F6 2I5 2W3 2F7 2I6 2W4 2I7 2W5 2W6 2W7\n"
            "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 3W5 3W6 3W7\n");
}

/// No possible order of two devices is shorter, for few micro-batches.
TEST(Schedules, AreAsShortAsAnyOrder) {
  constexpr int m = 3;
  for (const auto& [forward, backward] : {std::pair(1.0, 2.0), std::pair(1.0, 1.0), std::pair(3.0, 1.0)}) {
    double shortest = 1e9;
    int complete = 0;
    const auto orders = [&](int stage) {
      std::vector<std::vector<Action>> all;
      std::vector<bool> is_backward(2 * m, false);
      std::fill(is_backward.begin() + m, is_backward.end(), true);
      do {  // micro-batches in order, as channels require
        std::vector<Action> order;
        std::map<bool, int> next;
        for (const bool b : is_backward) order.push_back({b ? Action::Kind::backward : Action::Kind::forward, stage, next[b]++});
        all.push_back(order);
      } while (std::next_permutation(is_backward.begin(), is_backward.end()));
      return all;
    };
    for (const auto& first : orders(0)) {
      for (const auto& second : orders(1)) {
        const Schedule schedule{2, m, {first, second}};
        if (!problems_of(schedule, m).empty()) continue;
        ++complete;
        shortest = std::min(shortest, simulate(schedule, equal_times(2, forward, backward)).duration);
      }
    }
    EXPECT_GT(complete, 2);
    EXPECT_DOUBLE_EQ(simulate(one_forward_one_backward(2, m), equal_times(2, forward, backward)).duration, shortest);
    EXPECT_DOUBLE_EQ(simulate(gpipe(2, m), equal_times(2, forward, backward)).duration, shortest);
  }
}

TEST(Simulation, TransfersDelayAndStagesOfUnequalCostWait) {
  // One micro-batch passes through all stages and back.
  const std::vector<PassTimes> times{
      {.forward = 1, .backward = 2, .transfer = 0.5}, {.forward = 3, .backward = 4, .transfer = 0.25}, {.forward = 5, .backward = 6}};
  const Simulation simulation = simulate(gpipe(3, 1), times);
  EXPECT_DOUBLE_EQ(simulation.duration, 1 + 0.5 + 3 + 0.25 + 5 + 6 + 0.25 + 4 + 0.5 + 2);
  EXPECT_DOUBLE_EQ(simulation.devices[1][0].begin, 1.5);
  EXPECT_DOUBLE_EQ(simulation.bubble(2), simulation.duration - 11);
}

/// Stages 0 and 2 share the link from device 0 to device 1.
TEST(Simulation, TransfersBetweenTheSameDevicesFollowEachOther) {
  const Schedule schedule = schedule_from_text(
      "0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2\n"
      "1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2");
  const Simulation simulation = simulate(schedule, std::vector<PassTimes>(4, {.forward = 1, .backward = 1, .transfer = 10}));
  EXPECT_DOUBLE_EQ(simulation.devices[1][2].begin, 1 + 3 * 10) << "the third message of stage 0";
  EXPECT_DOUBLE_EQ(simulation.devices[1][3].begin, 1 + 4 * 10) << "the first one of stage 2";
}

TEST(Simulation, TransfersWithinADeviceTakeNoTime) {
  const Schedule schedule = schedule_from_text("0F0 1F0 1B0 0B0\n2F0 2B0");
  const Schedule alone = schedule_from_text("0F0 1F0 2F0 2B0 1B0 0B0");
  const std::vector<PassTimes> times(3, {.forward = 1, .backward = 1, .transfer = 10});
  EXPECT_DOUBLE_EQ(simulate(alone, times).duration, 6);
  EXPECT_DOUBLE_EQ(simulate(schedule, times).duration, 26) << "from stage 1 to 2, and back";
}

/// If transfers take longer than computations, they determine the duration.
TEST(Simulation, TransfersFollowEachOther) {
  const std::vector<PassTimes> times{{.forward = 1, .backward = 1, .transfer = 10}, {.forward = 1, .backward = 1}};
  const Simulation simulation = simulate(gpipe(2, 3), times);
  EXPECT_DOUBLE_EQ(simulation.devices[1][2].begin, 1 + 3 * 10) << "the third one, after two others";
  EXPECT_DOUBLE_EQ(simulation.duration, 1 + 3 * 10 + 1 + 1 + 3 * 10 + 1) << "and three back";
}

TEST(Check, NamesWhatIsWrong) {
  const auto expect_problem = [](const std::string& text, const std::string& problem, int capacity = 1) {
    const std::vector<std::string> problems = problems_of(schedule_from_text(text), capacity);
    const auto names = [&](const std::string& p) { return p.find(problem) != std::string::npos; };
    EXPECT_TRUE(std::any_of(problems.begin(), problems.end(), names)) << text << ": " << (problems.empty() ? "nothing" : problems.front());
  };
  expect_problem("0F0 0F1 0B0 0B1\n1F0 1F1 1B0", "the backward pass of micro-batch 1 on stage 1 is missing");
  expect_problem("0F0 0F0 0B0", "device 0: the forward pass of micro-batch 0 on stage 0 occurs twice");
  expect_problem("0B0 0F0", "device 0: the backward pass of micro-batch 0 on stage 0 precedes its forward pass");
  expect_problem("0F0 0B0 1F1\n1F0 1B0 1B1 0F1 0B1", "stage 1 is on device 0 and on device 1");
  expect_problem("0F0 0W0 0I0", "device 0: the weights' half of the backward pass of micro-batch 0 on stage 0 precedes the inputs' half");
  expect_problem("0F0 0I0", "the weights' half of the backward pass of micro-batch 0 on stage 0 is missing");
  expect_problem("0F0 0B0 0W0", "device 0: the weights' half of the backward pass of micro-batch 0 on stage 0 occurs twice");
  expect_problem("0F0 0I0 0B0", "device 0: the backward pass of micro-batch 0 on stage 0 occurs twice");
  expect_problem("0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1",
                 "device 0 waits for ever before the backward pass of micro-batch 0 on stage 0: its input has not arrived");
  expect_problem("0F0 0F1 0B0 0B1\n1F1 1F0 1B0 1B1",
                 "device 1 waits for ever before the forward pass of micro-batch 1 on stage 1: micro-batch 0 comes first");
  const std::string narrow = "0F0 0F1 0F2 0B0 0B1 0B2\n2F0 2B0 1F0 1B0 2F1 2B1 1F1 1B1 2F2 2B2 1F2 1B2";
  EXPECT_FALSE(problems_of(schedule_from_text(narrow)).empty()) << "stage 2 before stage 1";
}

/// Two schedules that need different channel capacities.
TEST(Check, CountsWhatIsUnderWay) {
  const Schedule eager = schedule_from_text("0F0 0F1 0F2 0B0 0B1 0B2\n1F0 1B0 1F1 1B1 1F2 1B2");
  EXPECT_TRUE(problems_of(eager, 1).empty());
  // Stage 0 receives no cotangent before it has sent all four; stage 1 returns two before it receives the third.
  const Schedule crossed = schedule_from_text("0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3\n1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3");
  const std::vector<std::string> problems = problems_of(crossed, 1);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_NE(problems[0].find("has not received micro-batch"), std::string::npos) << problems[0];
  EXPECT_TRUE(problems_of(crossed, 2).empty());
}

/// Any two neighbours swapped in one device's list: either reported, or harmless, in which case the simulation completes.
TEST(Check, JudgesRandomSchedulesAsTheyRun) {
  std::mt19937 random(1);
  int refused = 0;
  for (int trial = 0; trial < 500; ++trial) {
    Schedule schedule = one_forward_one_backward(4, 6);
    for (int k = 0; k < 2; ++k) {
      auto& device = schedule.devices[random() % 4];
      const size_t i = random() % (device.size() - 1);
      std::swap(device[i], device[i + 1]);
    }
    const std::vector<std::string> problems = problems_of(schedule, schedule.micro_batches);
    if (!problems.empty()) {
      ++refused;
      EXPECT_THROW(simulate(schedule, equal_times(4, 1, 2)), ContractError);
      continue;
    }
    size_t made = 0;
    for (const auto& device : simulate(schedule, equal_times(4, 1, 2)).devices) made += device.size();
    EXPECT_EQ(made, 2U * 4 * 6);
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 500);
}

TEST(Text, GoesBothWays) {
  for_all([](int stages, int m) {
    for (const auto& [name, kind] : schedule_names()) {
      const Schedule schedule = make_schedule(kind, stages, m);
      EXPECT_EQ(schedule_from_text(to_text(schedule)), schedule);
      EXPECT_EQ(name_of(kind), name);
    }
  });
  EXPECT_EQ(schedule_from_text("# two devices\n0F0 0B0   # the first\n\n1F0 1B0\n"), gpipe(2, 1));
  for (const char* wrong : {"0F0 0X0", "0F", "F0", "0F0B", "0G0", "-1F0", "0F99999999999"}) {
    EXPECT_THROW(schedule_from_text(wrong), Error) << wrong;
  }
  EXPECT_THROW(schedule_from_text(" # nothing\n"), Error);
}

TEST(Gantt, ShowsWhoWorksWhen) {
  const Simulation simulation = simulate(one_forward_one_backward(2, 2), equal_times(2, 1, 1));
  EXPECT_EQ(gantt_text(simulation, 12),
            "device 0  |0011..aa..bb|\n"
            "device 1  |..00aa11bb..|\n");
  const std::string svg = gantt_svg(simulation);
  EXPECT_EQ(std::count(svg.begin(), svg.end(), '\n'), 3 + 2 + 2 * 8) << "the picture and its ground, two names, eight actions with their numbers";
}

}  // namespace schedule_test
}  // namespace tw::pipeline
