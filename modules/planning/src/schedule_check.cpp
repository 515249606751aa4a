// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/schedule_check.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

#include "list_execution.hpp"

namespace tw::pipeline {
namespace {

std::string name_of(const Action& action) {
  constexpr std::array names{"forward pass", "backward pass", "inputs' half of the backward pass", "weights' half of the backward pass"};  // by kind
  return concat(names.at(static_cast<size_t>(action.kind)), " of micro-batch ", action.micro_batch, " on stage ", action.stage);
}

/// Checks that each stage is on one device, computes everything once, and runs backward passes after forward passes, in two halves or whole.
std::vector<std::string> problems_of_lists(const Schedule& schedule) {
  std::vector<std::string> problems;
  std::map<int, size_t> device_of;
  using Made = std::set<std::pair<int, int>>;
  Made forwards;
  Made cotangents;
  Made weights;
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Action& action : schedule.devices[device]) {
      if (action.stage < 0 || action.stage >= schedule.stages || action.micro_batch < 0 || action.micro_batch >= schedule.micro_batches) {
        problems.push_back(concat("device ", device, ": there is no ", name_of(action)));
        continue;
      }
      const auto [home, is_new] = device_of.emplace(action.stage, device);
      if (home->second != device) problems.push_back(concat("stage ", action.stage, " is on device ", home->second, " and on device ", device));
      const std::pair place(action.stage, action.micro_batch);
      if (action.makes_cotangents() && !forwards.contains(place))
        problems.push_back(concat("device ", device, ": the ", name_of(action), " precedes its forward pass"));
      if (action.kind == Action::Kind::backward_weight && !cotangents.contains(place))
        problems.push_back(concat("device ", device, ": the ", name_of(action), " precedes the inputs' half"));
      const bool is_new_forward = !action.is_forward() || forwards.insert(place).second;
      const bool is_new_cotangent = !action.makes_cotangents() || cotangents.insert(place).second;
      const bool is_new_weight = action.is_forward() || !action.frees() || weights.insert(place).second;
      if (!is_new_forward || !is_new_cotangent || !is_new_weight)
        problems.push_back(concat("device ", device, ": the ", name_of(action), " occurs twice"));
    }
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int m = 0; m < schedule.micro_batches; ++m) {
      const auto expect = [&](const Made& made, Action::Kind kind) {
        if (!made.contains({stage, m})) problems.push_back(concat("the ", name_of({kind, stage, m}), " is missing"));
        return made.contains({stage, m});
      };
      expect(forwards, Action::Kind::forward);
      if (expect(cotangents, Action::Kind::backward)) expect(weights, Action::Kind::backward_weight);
    }
  }
  return problems;
}

/// The lists with a channel for each direction of each border between stages. @param schedule with each stage on one device
ExecutableLists executable(const Schedule& schedule) {
  const std::vector<int> device_of = schedule.device_of_stages();
  ExecutableLists all{.lists = std::vector<std::vector<Step>>(schedule.devices.size())};
  for (size_t border = 0; border + 1 < device_of.size(); ++border) {
    const auto before = static_cast<size_t>(device_of[border]);
    const auto after = static_cast<size_t>(device_of[border + 1]);
    all.channels.push_back({before, after});
    all.channels.push_back({after, before});
  }
  const auto message = [&](const Action& action, int border) -> std::optional<Step::Message> {
    if (border < 0 || border + 1 >= schedule.stages) return std::nullopt;
    return Step::Message{2 * static_cast<size_t>(border) + (action.is_forward() ? 0 : 1), action.micro_batch};
  };
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Action& action : schedule.devices[device]) {
      if (action.kind == Action::Kind::backward_weight) {
        all.lists[device].emplace_back();  // waits for no other device
        continue;
      }
      const int before = action.stage - 1;
      const int after = action.stage;
      const bool is_forward = action.is_forward();
      all.lists[device].push_back({.in = message(action, is_forward ? before : after), .out = message(action, is_forward ? after : before)});
    }
  }
  return all;
}

std::string reason_text(const BlockedList& blocked) {
  switch (blocked.reason) {
    case BlockedList::Reason::no_message: return "its input has not arrived";
    case BlockedList::Reason::wrong_message: return concat("micro-batch ", blocked.item, " comes first");
    default: return concat("the next stage has not received micro-batch ", blocked.item);
  }
}

}  // namespace

std::vector<std::string> problems_of(const Schedule& schedule, int channel_capacity) {
  TW_EXPECTS(channel_capacity >= 1, "a channel must hold at least one micro-batch, got ", channel_capacity);
  std::vector<std::string> problems = problems_of_lists(schedule);
  if (!problems.empty()) return problems;
  for (const BlockedList& blocked : execute(executable(schedule), static_cast<size_t>(channel_capacity))) {
    const Action& action = schedule.devices[blocked.list][blocked.position];
    problems.push_back(concat("device ", blocked.list, " waits for ever before the ", name_of(action), ": ", reason_text(blocked)));
  }
  return problems;
}

namespace {

/// By stage, the maximum number of micro-batches between an action that `begins` and one that `ends`.
template <class Begins, class Ends>
std::vector<int> max_between(const Schedule& schedule, const Begins& begins, const Ends& ends) {
  std::vector<int> now(static_cast<size_t>(schedule.stages), 0);
  std::vector<int> most(now);
  for (const std::vector<Action>& device : schedule.devices) {
    for (const Action& action : device) {
      const auto stage = static_cast<size_t>(action.stage);
      now[stage] += (begins(action) ? 1 : 0) - (ends(action) ? 1 : 0);
      most[stage] = std::max(most[stage], now[stage]);
    }
  }
  return most;
}

}  // namespace

std::vector<int> max_in_flight(const Schedule& schedule) {
  return max_between(schedule, std::mem_fn(&Action::is_forward), std::mem_fn(&Action::frees));
}

std::vector<int> max_activations(const Schedule& schedule) {
  return max_between(schedule, std::mem_fn(&Action::is_forward), std::mem_fn(&Action::makes_cotangents));
}

std::vector<int> max_waiting(const Schedule& schedule) {
  return max_between(schedule, std::mem_fn(&Action::makes_cotangents), std::mem_fn(&Action::frees));
}

std::vector<int> max_held_by_devices(const Schedule& schedule) {
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

}  // namespace tw::pipeline
