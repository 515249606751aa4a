// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/list_schedule.hpp>

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

#include "links.hpp"
#include "times_check.hpp"

namespace tw::pipeline {
namespace {

using Kind = Action::Kind;

/// How a device chooses among actions that can begin at about the same time.
struct Rule {
  /// Places that a forward pass leaves for later stages of the same device.
  enum class Room {
    few,  // as many as later stages hold when nothing delays them, less two; some limits then leave devices waiting for each other
    // One for each micro-batch that has begun and has not passed the later stages yet: a micro-batch that has begun can always go on.
    many,
  };
  bool forward_first = true;  // before backward passes
  Room room = Room::few;
  double patience = 0;  // how long a device waits for a more urgent action, in durations of the one that it can begin first
};

/// An action that a device can make next.
struct Choice {
  double begin = infinity;  // the earliest time; infinite: there is no such action
  int priority = 0;         // the least is the most urgent
  Action action;
};

/// The device with the smallest time, of equal ones the first. Changes of a device's time take O(log(devices)).
class EarliestDevice {
 public:
  explicit EarliestDevice(size_t devices) : leaves_(std::bit_ceil(devices)), times_(leaves_, infinity), winners_(2 * leaves_, 0) {
    for (size_t leaf = 0; leaf < leaves_; ++leaf) winners_[leaves_ + leaf] = leaf;
    for (size_t node = leaves_ - 1; node > 0; --node) play(node);
  }

  void set(size_t device, double time) {
    times_[device] = time;
    for (size_t node = (leaves_ + device) / 2; node > 0; node /= 2) play(node);
  }
  size_t get() const { return winners_[1]; }

 private:
  void play(size_t node) {
    const size_t left = winners_[2 * node];
    const size_t right = winners_[2 * node + 1];
    winners_[node] = times_[right] < times_[left] ? right : left;
  }

  size_t leaves_;  // a power of two
  std::vector<double> times_;
  std::vector<size_t> winners_;  // by node of a binary tree: the root is 1, the children of n are 2n and 2n + 1
};

/// The devices under one rule.
class Devices {
 public:
  Devices(const ListOptions& options, Rule rule)
      : options_(options),
        rule_(rule),
        stages_(options.device_of_stages.size()),
        devices_(options.most_held.size()),
        links_(options.device_of_stages, options.times),
        earliest_(devices_.size()) {
    for (size_t stage = 0; stage < stages_.size(); ++stage) devices_[device_of(stage)].stages.push_back(static_cast<int>(stage));
    stages_.front().forward_arrivals.assign(static_cast<size_t>(options.micro_batches), 0.0);
  }

  /// Makes all actions. Empty if devices wait for each other's places, or if they take at least `limit`.
  std::optional<Schedule> run(double limit) {
    const size_t actions = stages_.size() * static_cast<size_t>(options_.micro_batches) * (options_.in_halves ? 3 : 2);
    Schedule schedule{static_cast<int>(stages_.size()), options_.micro_batches, std::vector<std::vector<Action>>(devices_.size())};
    for (size_t device = 0; device < devices_.size(); ++device) decide(device);
    for (size_t made = 0; made < actions; ++made) {
      const size_t first = earliest_.get();
      const Choice choice = devices_[first].next;
      if (choice.begin >= limit) return std::nullopt;
      make(devices_[first], choice);
      schedule.devices[first].push_back(choice.action);
      for (int index = std::max(0, choice.action.stage - 1); index <= std::min(last_stage(), choice.action.stage + 1); ++index)
        decide(device_of(static_cast<size_t>(index)));
    }
    return schedule;
  }

  double duration() const { return std::ranges::max_element(devices_, {}, &Device::free)->free; }

 private:
  struct Stage {
    std::vector<double> forward_arrivals;   // of inputs, by micro-batch
    std::vector<double> backward_arrivals;  // of cotangents, by micro-batch
    int forwards = 0;                       // forward passes made
    int backwards = 0;                      // backward passes made, or their inputs' halves
    int weights = 0;                        // backward passes of which both halves are made
    int held() const { return forwards - weights; }
  };
  struct Device {
    std::vector<int> stages;
    double free = 0;  // when its last action ends
    int held = 0;
    std::deque<Action> weights;  // weights' halves that wait
    Choice next;                 // what it makes next, unless an input arrives before
  };

  void decide(size_t device) {
    devices_[device].next = choose(devices_[device]);
    earliest_.set(device, devices_[device].next.begin);
  }

  size_t device_of(size_t stage) const { return static_cast<size_t>(options_.device_of_stages[stage]); }
  Stage& stage(int index) { return stages_[static_cast<size_t>(index)]; }
  const Stage& stage(int index) const { return stages_[static_cast<size_t>(index)]; }
  int last_stage() const { return static_cast<int>(stages_.size()) - 1; }

  /// Places that must stay free for later stages of the device when `index` begins another forward pass.
  int room_after(const Device& device, int index) const {
    const auto per_device = static_cast<int64_t>(device.stages.size());
    int room = 0;
    for (const int later : device.stages) {
      if (later <= index) continue;
      if (rule_.room == Rule::Room::many) {
        room += std::max(0, stage(index).forwards + 1 - stage(later).forwards);
      } else {
        // A micro-batch comes back to the later stage after this many passes. Meanwhile a new micro-batch reaches it every `per_device` passes.
        const int passes = 2 * (last_stage() - later) + 1;
        room += std::max(0, static_cast<int>(divide_up(passes, per_device)) - 2 - stage(later).held());
      }
    }
    return room;
  }

  /// Whether the stage may hold one more than `count`. @param limits ListOptions::most_activations or most_waiting
  static bool is_below(int count, const std::vector<int>& limits, int index) { return limits.empty() || count < limits[static_cast<size_t>(index)]; }

  /// Calls visit(choice) for each action that the device can make next, of the latest stage first.
  template <class Visit>
  void for_each_choice(const Device& device, const Visit& visit) const {
    for (auto index = device.stages.rbegin(); index != device.stages.rend(); ++index) {
      const Stage& each = stage(*index);
      const auto forwards = static_cast<size_t>(each.forwards);
      const auto backwards = static_cast<size_t>(each.backwards);
      if (forwards < each.forward_arrivals.size() && is_below(each.forwards - each.backwards, options_.most_activations, *index) &&
          device.held + 1 + room_after(device, *index) <= options_.most_held[device_of(static_cast<size_t>(*index))])
        visit({std::max(device.free, each.forward_arrivals[forwards]), rule_.forward_first ? 0 : 1, {Kind::forward, *index, each.forwards}});
      if (backwards < each.backward_arrivals.size() &&
          (!options_.in_halves || is_below(each.backwards - each.weights, options_.most_waiting, *index)))
        visit({std::max(device.free, each.backward_arrivals[backwards]),
               rule_.forward_first ? 1 : 0,
               {options_.in_halves ? Kind::backward_input : Kind::backward, *index, each.backwards}});
    }
    if (!device.weights.empty()) visit({device.free, 2, device.weights.front()});
  }

  Choice choose(const Device& device) const {
    Choice first;
    for_each_choice(device, [&](const Choice& each) {
      if (each.begin < first.begin || (each.begin == first.begin && each.priority < first.priority)) first = each;
    });
    if (rule_.patience == 0 || first.begin == infinity) return first;
    const double latest = first.begin + rule_.patience * duration_of(first.action, times_of(first.action));
    Choice best = first;
    for_each_choice(device, [&](const Choice& each) {
      if (each.begin <= latest && each.priority < best.priority) best = each;
    });
    return best;
  }

  const PassTimes& times_of(const Action& action) const { return options_.times[static_cast<size_t>(action.stage)]; }

  void make(Device& device, const Choice& choice) {
    const Action& action = choice.action;
    device.free = choice.begin + duration_of(action, times_of(action));
    Stage& made = stage(action.stage);
    if (action.is_forward()) {
      ++made.forwards;
      ++device.held;
      if (action.stage == last_stage()) {
        made.backward_arrivals.push_back(device.free);
      } else {
        stage(action.stage + 1).forward_arrivals.push_back(links_.send(action.stage, action.stage + 1, device.free));
      }
    }
    if (action.makes_cotangents()) {
      ++made.backwards;
      if (action.stage > 0) stage(action.stage - 1).backward_arrivals.push_back(links_.send(action.stage, action.stage - 1, device.free));
    }
    if (action.kind == Kind::backward_input) device.weights.push_back({Kind::backward_weight, action.stage, action.micro_batch});
    if (action.kind == Kind::backward_weight) device.weights.pop_front();
    if (action.frees()) {
      ++made.weights;
      --device.held;
    }
  }

  const ListOptions& options_;
  Rule rule_;
  std::vector<Stage> stages_;
  std::vector<Device> devices_;
  Links links_;
  EarliestDevice earliest_;  // by the begin of the next action
};

/// Checks that `limits` has an entry of at least 1 for each stage, or none.
void expect_limits(const char* name, const std::vector<int>& limits, size_t stages) {
  TW_EXPECTS(limits.empty() || limits.size() == stages, "there are ", stages, " stages, but ", name, " has ", limits.size(), " entries");
  for (const int each : limits) TW_EXPECTS(each >= 1, name, " must be at least 1, got ", each);
}

void expect_valid(const ListOptions& options) {
  TW_EXPECTS(options.micro_batches >= 1, "a batch must have at least one micro-batch, got ", options.micro_batches);
  const std::vector<int>& device_of = options.device_of_stages;
  TW_EXPECTS(!device_of.empty(), "a pipeline must have at least one stage");
  TW_EXPECTS(options.times.size() == device_of.size(), "there are ", device_of.size(), " stages, but times of ", options.times.size());
  expect_times(options.times, options.micro_batches);
  for (size_t stage = 0; stage < device_of.size(); ++stage) {
    TW_EXPECTS(device_of[stage] >= 0 && device_of[stage] < static_cast<int>(options.most_held.size()), "stage ", stage, " is on device ",
               device_of[stage], ", but there are ", options.most_held.size(), " devices");
  }
  for (size_t device = 0; device < options.most_held.size(); ++device) {
    const auto stages = std::ranges::count(device_of, static_cast<int>(device));
    TW_EXPECTS(stages > 0, "device ", device, " has no stage");
    TW_EXPECTS(options.most_held[device] >= stages, "device ", device, " has ", stages, " stages, but may hold data of only ",
               options.most_held[device]);
  }
  expect_limits("most_activations", options.most_activations, device_of.size());
  expect_limits("most_waiting", options.most_waiting, device_of.size());
}

}  // namespace

Schedule list_schedule(const ListOptions& options) {
  expect_valid(options);
  Schedule shortest;
  double least = infinity;
  for (const double patience : {0.0, 0.5}) {
    for (const Rule::Room room : {Rule::Room::few, Rule::Room::many}) {
      for (const bool forward_first : {true, false}) {
        Devices devices(options, {forward_first, room, patience});
        std::optional<Schedule> made = devices.run(least);
        if (!made || devices.duration() >= least) continue;
        least = devices.duration();
        shortest = std::move(*made);
      }
    }
  }
  TW_ASSERT(!shortest.devices.empty());  // Room::many always ends
  return shortest;
}

}  // namespace tw::pipeline
