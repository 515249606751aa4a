// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/list_schedule.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

namespace tw::pipeline {
namespace {

using Kind = Action::Kind;

/// How a device chooses among actions that can begin at the same time.
struct Rule {
  /// Places that a forward pass leaves for later stages of the same device.
  enum class Room {
    few,  // as many as later stages hold when nothing delays them, less two; some limits then leave devices waiting for each other
    // One for each micro-batch that has begun and has not passed the later stages yet: a micro-batch that has begun can always go on.
    many,
  };
  bool forward_first = true;  // before backward passes
  Room room = Room::few;
};
constexpr std::array rules{Rule{true, Rule::Room::few}, Rule{false, Rule::Room::few}, Rule{true, Rule::Room::many}, Rule{false, Rule::Room::many}};

/// An action that a device can make next.
struct Choice {
  double begin = infinity;  // the earliest time; infinite: there is no such action
  int priority = 0;         // the least comes first
  Action action;
};

/// The devices under one rule.
class Devices {
 public:
  Devices(const ListOptions& options, Rule rule)
      : options_(options), rule_(rule), stages_(options.device_of_stages.size()), devices_(options.most_held.size()) {
    for (size_t stage = 0; stage < stages_.size(); ++stage) devices_[device_of(stage)].stages.push_back(static_cast<int>(stage));
    stages_.front().forward_arrivals.assign(static_cast<size_t>(options.micro_batches), 0.0);
  }

  /// Makes all actions. Empty if devices wait for each other's places.
  std::optional<Schedule> run() {
    const size_t actions = stages_.size() * static_cast<size_t>(options_.micro_batches) * (options_.in_halves ? 3 : 2);
    Schedule schedule{static_cast<int>(stages_.size()), options_.micro_batches, std::vector<std::vector<Action>>(devices_.size())};
    for (Device& each : devices_) each.next = choose(each);
    for (size_t made = 0; made < actions; ++made) {
      const auto first = std::ranges::min_element(devices_, {}, [](const Device& each) { return each.next.begin; });
      const Choice choice = first->next;
      if (choice.begin == infinity) return std::nullopt;
      make(*first, choice);
      schedule.devices[static_cast<size_t>(first - devices_.begin())].push_back(choice.action);
      for (int index = std::max(0, choice.action.stage - 1); index <= std::min(last_stage(), choice.action.stage + 1); ++index) {
        Device& changed = devices_[device_of(static_cast<size_t>(index))];
        changed.next = choose(changed);
      }
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
    int held = 0;                           // micro-batches whose data the stage holds
  };
  struct Device {
    std::vector<int> stages;
    double free = 0;  // when its last action ends
    int held = 0;
    std::deque<Action> weights;  // weights' halves that wait
    Choice next;                 // what it makes next, unless an input arrives before
  };

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
        room += std::max(0, static_cast<int>(divide_up(passes, per_device)) - 2 - stage(later).held);
      }
    }
    return room;
  }

  Choice choose(const Device& device) const {
    Choice best;
    const auto consider = [&](double arrival, int priority, const Action& action) {
      const double begin = std::max(arrival, device.free);
      if (begin < best.begin || (begin == best.begin && priority < best.priority)) best = {begin, priority, action};
    };
    for (auto index = device.stages.rbegin(); index != device.stages.rend(); ++index) {  // the latest stage first
      const Stage& each = stage(*index);
      const auto forwards = static_cast<size_t>(each.forwards);
      const auto backwards = static_cast<size_t>(each.backwards);
      if (forwards < each.forward_arrivals.size() && device.held + 1 + room_after(device, *index) <= most_held(*index))
        consider(each.forward_arrivals[forwards], rule_.forward_first ? 0 : 1, {Kind::forward, *index, each.forwards});
      if (backwards < each.backward_arrivals.size())
        consider(each.backward_arrivals[backwards], rule_.forward_first ? 1 : 0,
                 {options_.in_halves ? Kind::backward_input : Kind::backward, *index, each.backwards});
    }
    if (!device.weights.empty()) consider(0, 2, device.weights.front());
    return best;
  }
  int most_held(int index) const { return options_.most_held[device_of(static_cast<size_t>(index))]; }

  void make(Device& device, const Choice& choice) {
    const Action& action = choice.action;
    const PassTimes& times = options_.times[static_cast<size_t>(action.stage)];
    device.free = choice.begin + duration_of(action, times);
    Stage& made = stage(action.stage);
    if (action.is_forward()) {
      ++made.forwards;
      ++made.held;
      ++device.held;
      if (action.stage == last_stage()) {
        made.backward_arrivals.push_back(device.free);
      } else {
        stage(action.stage + 1).forward_arrivals.push_back(device.free + transfer(action.stage));
      }
    }
    if (action.makes_cotangents()) {
      ++made.backwards;
      if (action.stage > 0) stage(action.stage - 1).backward_arrivals.push_back(device.free + transfer(action.stage - 1));
    }
    if (action.kind == Kind::backward_input) device.weights.push_back({Kind::backward_weight, action.stage, action.micro_batch});
    if (action.kind == Kind::backward_weight) device.weights.pop_front();
    if (action.frees()) {
      --made.held;
      --device.held;
    }
  }
  /// Time of a transfer between stage `index` and the next one.
  double transfer(int index) const {
    const auto here = static_cast<size_t>(index);
    return device_of(here) == device_of(here + 1) ? 0 : options_.times[here].transfer;
  }

  const ListOptions& options_;
  Rule rule_;
  std::vector<Stage> stages_;
  std::vector<Device> devices_;
};

void expect_valid(const ListOptions& options) {
  TW_EXPECTS(options.micro_batches >= 1, "a batch must have at least one micro-batch, got ", options.micro_batches);
  const std::vector<int>& device_of = options.device_of_stages;
  TW_EXPECTS(!device_of.empty(), "a pipeline must have at least one stage");
  TW_EXPECTS(options.times.size() == device_of.size(), "there are ", device_of.size(), " stages, but times of ", options.times.size());
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
}

}  // namespace

Schedule list_schedule(const ListOptions& options) {
  expect_valid(options);
  Schedule shortest;
  double least = infinity;
  for (const Rule& rule : rules) {
    Devices devices(options, rule);
    std::optional<Schedule> made = devices.run();
    if (!made || devices.duration() >= least) continue;
    least = devices.duration();
    shortest = std::move(*made);
  }
  TW_ASSERT(!shortest.devices.empty());  // Room::many always ends
  return shortest;
}

}  // namespace tw::pipeline
