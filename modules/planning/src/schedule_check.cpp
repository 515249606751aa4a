// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/schedule_check.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw::pipeline {
namespace {

std::string name_of(const Action& action) {
  return concat(action.is_forward() ? "forward" : "backward", " pass of micro-batch ", action.micro_batch, " on stage ", action.stage);
}

/// Checks that each stage is on one device, computes everything once, and runs backward passes after forward passes.
std::vector<std::string> problems_of_lists(const Schedule& schedule) {
  std::vector<std::string> problems;
  std::map<int, size_t> device_of;
  std::set<std::pair<int, int>> forwards;
  std::set<std::pair<int, int>> backwards;
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Action& action : schedule.devices[device]) {
      if (action.stage < 0 || action.stage >= schedule.stages || action.micro_batch < 0 || action.micro_batch >= schedule.micro_batches) {
        problems.push_back(concat("device ", device, ": there is no ", name_of(action)));
        continue;
      }
      const auto [home, is_new] = device_of.emplace(action.stage, device);
      if (home->second != device) problems.push_back(concat("stage ", action.stage, " is on device ", home->second, " and on device ", device));
      const std::pair place(action.stage, action.micro_batch);
      const bool is_forward = action.is_forward();
      if (!is_forward && !forwards.contains(place))
        problems.push_back(concat("device ", device, ": the ", name_of(action), " precedes its forward pass"));
      if (!(is_forward ? forwards : backwards).insert(place).second)
        problems.push_back(concat("device ", device, ": the ", name_of(action), " occurs twice"));
    }
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int m = 0; m < schedule.micro_batches; ++m) {
      for (const auto& [kind, made] : {std::pair(Action::Kind::forward, &forwards), std::pair(Action::Kind::backward, &backwards)}) {
        if (!made->contains({stage, m})) problems.push_back(concat("the ", name_of({kind, stage, m}), " is missing"));
      }
    }
  }
  return problems;
}

/// Executes the lists, with ordered channels of limited capacity between stages.
class Execution {
 public:
  Execution(const Schedule& schedule, int capacity)
      : schedule_(schedule), capacity_(static_cast<size_t>(capacity)), next_(schedule.devices.size(), 0) {}

  std::vector<std::string> run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t device = 0; device < next_.size(); ++device) {
        while (next_[device] < schedule_.devices[device].size() && obstacle(current(device)).empty()) {
          make(current(device));
          ++next_[device];
          progress = true;
        }
      }
    }
    std::vector<std::string> problems;
    for (size_t device = 0; device < next_.size(); ++device) {
      if (next_[device] == schedule_.devices[device].size()) continue;
      const Action& action = current(device);
      problems.push_back(concat("device ", device, " waits for ever before the ", name_of(action), ": ", obstacle(action)));
    }
    return problems;
  }

 private:
  using Channel = std::vector<int>;  // micro-batches in flight, oldest first

  const Action& current(size_t device) const { return schedule_.devices[device][next_[device]]; }
  Channel* input(const Action& action) {
    const int from = action.is_forward() ? action.stage - 1 : action.stage + 1;
    return from < 0 || from >= schedule_.stages ? nullptr : &channels_[{action.is_forward(), from}];
  }
  Channel* output(const Action& action) {
    const int to = action.is_forward() ? action.stage + 1 : action.stage - 1;
    return to < 0 || to >= schedule_.stages ? nullptr : &channels_[{action.is_forward(), action.stage}];
  }

  /// Why the action cannot run now; empty: it can.
  std::string obstacle(const Action& action) {
    const Channel* in = input(action);
    if (in != nullptr && in->empty()) return "its input has not arrived";
    if (in != nullptr && in->front() != action.micro_batch) return concat("micro-batch ", in->front(), " comes first");
    const Channel* out = output(action);
    if (out != nullptr && out->size() == capacity_) return concat("the next stage has not received micro-batch ", out->front());
    return "";
  }

  void make(const Action& action) {
    if (Channel* in = input(action)) in->erase(in->begin());
    if (Channel* out = output(action)) out->push_back(action.micro_batch);
  }

  const Schedule& schedule_;
  size_t capacity_;
  std::vector<size_t> next_;                          // next action of each device
  std::map<std::pair<bool, int>, Channel> channels_;  // by direction and sender
};

}  // namespace

std::vector<std::string> problems_of(const Schedule& schedule, int channel_capacity) {
  TW_EXPECTS(channel_capacity >= 1, "a channel must hold at least one micro-batch, got ", channel_capacity);
  const std::vector<std::string> problems = problems_of_lists(schedule);
  return problems.empty() ? Execution(schedule, channel_capacity).run() : problems;
}

std::vector<int> max_in_flight(const Schedule& schedule) {
  std::vector<int> now(static_cast<size_t>(schedule.stages), 0);
  std::vector<int> most(now);
  for (const std::vector<Action>& device : schedule.devices) {
    for (const Action& action : device) {
      const auto stage = static_cast<size_t>(action.stage);
      now[stage] += action.is_forward() ? 1 : -1;
      most[stage] = std::max(most[stage], now[stage]);
    }
  }
  return most;
}

}  // namespace tw::pipeline
