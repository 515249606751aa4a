// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/schedule.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/planning/list_schedule.hpp>

namespace tw::pipeline {
namespace {

/// @param warm_up by stage, the number of forward passes before forward and backward passes alternate. @param delay by stage, the number of
/// micro-batches by which the weights' half of a backward pass is delayed
template <class WarmUp, class Delay>
Schedule in_halves(int stages, int micro_batches, const WarmUp& warm_up, const Delay& delay) {
  TW_EXPECTS(stages >= 1, "a pipeline must have at least one stage, got ", stages);
  TW_EXPECTS(micro_batches >= 1, "a batch must have at least one micro-batch, got ", micro_batches);
  Schedule schedule{stages, micro_batches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<Action>& actions = schedule.devices.emplace_back();
    const int ahead = std::min(warm_up(stage), micro_batches);
    for (int m = 0; m < ahead; ++m) actions.push_back({Action::Kind::forward, stage, m});
    for (int m = 0; m < micro_batches; ++m) {
      if (ahead + m < micro_batches) actions.push_back({Action::Kind::forward, stage, ahead + m});
      actions.push_back({Action::Kind::backward_input, stage, m});
      if (m >= delay(stage)) actions.push_back({Action::Kind::backward_weight, stage, m - delay(stage)});
    }
    for (int m = std::max(0, micro_batches - delay(stage)); m < micro_batches; ++m) actions.push_back({Action::Kind::backward_weight, stage, m});
  }
  return schedule;
}

/// The same with whole backward passes.
template <class WarmUp>
Schedule alternating(int stages, int micro_batches, const WarmUp& warm_up) {
  Schedule schedule = in_halves(stages, micro_batches, warm_up, [](int /*stage*/) { return 0; });
  for (std::vector<Action>& actions : schedule.devices) {
    std::erase_if(actions, [](const Action& action) { return action.kind == Action::Kind::backward_weight; });
    for (Action& action : actions) {
      if (!action.is_forward()) action.kind = Action::Kind::backward;
    }
  }
  return schedule;
}

std::vector<int> in_rounds(int devices, int rounds) {
  std::vector<int> device_of;
  for (int stage = 0; stage < devices * rounds; ++stage) device_of.push_back(stage % devices);
  return device_of;
}

std::vector<int> there_and_back(int devices) {
  std::vector<int> device_of;
  for (int stage = 0; stage < 2 * devices; ++stage) device_of.push_back(std::min(stage, 2 * devices - 1 - stage));
  return device_of;
}

/// interleaved() for a multiple of `devices` micro-batches: groups of `devices` micro-batches pass the stages of a device one after the other.
Schedule interleaved_by_groups(int devices, int stages_per_device, int micro_batches) {
  const int passes = micro_batches * stages_per_device;  // forward passes of a device
  Schedule schedule{devices * stages_per_device, micro_batches, {}};
  for (int device = 0; device < devices; ++device) {
    std::vector<Action>& actions = schedule.devices.emplace_back();
    const auto pass = [&](Action::Kind kind, int number) {
      const int in_group = number % (devices * stages_per_device);
      const int turn = in_group / devices;  // how many stages of this device came before
      const int turns = kind == Action::Kind::forward ? turn : stages_per_device - 1 - turn;
      actions.push_back({kind, turns * devices + device, number / (devices * stages_per_device) * devices + in_group % devices});
    };
    const int ahead = std::min(passes, 2 * (devices - 1 - device) + (stages_per_device - 1) * devices);
    for (int i = 0; i < ahead; ++i) pass(Action::Kind::forward, i);
    for (int i = 0; i < passes; ++i) {
      if (ahead + i < passes) pass(Action::Kind::forward, ahead + i);
      pass(Action::Kind::backward, i);
    }
  }
  return schedule;
}

constexpr std::array letters{'F', 'B', 'I', 'W'};  // by Action::Kind

/// Parses a number at the front of `word` and removes it.
std::optional<int> take_number(std::string_view& word) {
  int number = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (problem != std::errc() || number < 0) return std::nullopt;
  word.remove_prefix(static_cast<size_t>(end - word.data()));
  return number;
}

std::optional<Action> parse(std::string_view word) {
  const std::optional<int> stage = take_number(word);
  if (!stage || word.empty()) return std::nullopt;
  const auto* const letter = std::ranges::find(letters, word.front());
  if (letter == letters.end()) return std::nullopt;
  const auto kind = static_cast<Action::Kind>(letter - letters.begin());
  word.remove_prefix(1);
  const std::optional<int> micro_batch = take_number(word);
  if (!micro_batch || !word.empty()) return std::nullopt;
  return Action{kind, *stage, *micro_batch};
}

}  // namespace

bool Schedule::has_halves() const noexcept {
  const auto is_half = [](const Action& action) { return action.kind == Action::Kind::backward_weight; };
  return std::ranges::any_of(devices, [&](const std::vector<Action>& actions) { return std::ranges::any_of(actions, is_half); });
}

std::vector<int> Schedule::device_of_stages() const {
  std::vector<int> device_of(static_cast<size_t>(stages), -1);
  for (size_t device = 0; device < devices.size(); ++device) {
    for (const Action& action : devices[device]) device_of.at(static_cast<size_t>(action.stage)) = static_cast<int>(device);
  }
  return device_of;
}

Schedule gpipe(int stages, int micro_batches) {
  return alternating(stages, micro_batches, [&](int /*stage*/) { return micro_batches; });
}

Schedule one_forward_one_backward(int stages, int micro_batches) {
  return alternating(stages, micro_batches, [&](int stage) { return stages - 1 - stage; });
}

Schedule zero_bubble_h1(int stages, int micro_batches) {
  return in_halves(stages, micro_batches, [&](int stage) { return stages - 1 - stage; }, [](int stage) { return stage; });
}

Schedule interleaved(int devices, int stages_per_device, int micro_batches) {
  TW_EXPECTS(devices >= 1, "a pipeline must have at least one device, got ", devices);
  TW_EXPECTS(stages_per_device >= 1, "a device must have at least one stage, got ", stages_per_device);
  if (micro_batches >= 1 && micro_batches % devices == 0) return interleaved_by_groups(devices, stages_per_device, micro_batches);
  ListOptions options{.micro_batches = micro_batches, .device_of_stages = in_rounds(devices, stages_per_device)};
  for (int device = 0; device < devices; ++device) options.most_held.push_back(2 * (devices - 1 - device) + (stages_per_device - 1) * devices + 1);
  options.times.assign(options.device_of_stages.size(), {.forward = 1, .backward = 2});
  return list_schedule(options);
}

Schedule zero_bubble_v(int devices, int micro_batches) {
  TW_EXPECTS(devices >= 1, "a pipeline must have at least one device, got ", devices);
  ListOptions options{.micro_batches = micro_batches, .in_halves = true, .device_of_stages = there_and_back(devices)};
  options.most_held.assign(static_cast<size_t>(devices), 2 * devices);
  options.times.assign(options.device_of_stages.size(), {.forward = 1, .backward = 2, .weights = 1});
  return list_schedule(options);
}

int stages_per_device(ScheduleKind kind) noexcept { return kind == ScheduleKind::interleaved || kind == ScheduleKind::zero_bubble_v ? 2 : 1; }

std::vector<int> device_of_stages(ScheduleKind kind, int devices) {
  return kind == ScheduleKind::zero_bubble_v ? there_and_back(devices) : in_rounds(devices, stages_per_device(kind));
}

Schedule make_schedule(ScheduleKind kind, int devices, int micro_batches) {
  switch (kind) {
    case ScheduleKind::gpipe: return gpipe(devices, micro_batches);
    case ScheduleKind::one_forward_one_backward: return one_forward_one_backward(devices, micro_batches);
    case ScheduleKind::zero_bubble_h1: return zero_bubble_h1(devices, micro_batches);
    case ScheduleKind::interleaved: return interleaved(devices, stages_per_device(kind), micro_batches);
    default: return zero_bubble_v(devices, micro_batches);
  }
}

const std::vector<std::pair<std::string, ScheduleKind>>& schedule_names() {
  static const std::vector<std::pair<std::string, ScheduleKind>> names{{"gpipe", ScheduleKind::gpipe},
                                                                       {"1f1b", ScheduleKind::one_forward_one_backward},
                                                                       {"zb-h1", ScheduleKind::zero_bubble_h1},
                                                                       {"interleaved", ScheduleKind::interleaved},
                                                                       {"zb-v", ScheduleKind::zero_bubble_v}};
  return names;
}

const char* name_of(ScheduleKind kind) noexcept { return schedule_names().at(static_cast<size_t>(kind)).first.c_str(); }

std::string to_text(const Schedule& schedule) {
  TextWriter out;
  for (const std::vector<Action>& device : schedule.devices) {
    for (size_t i = 0; i < device.size(); ++i) {
      out << (i > 0 ? " " : "") << device[i].stage << letters.at(static_cast<size_t>(device[i].kind)) << device[i].micro_batch;
    }
    out << '\n';
  }
  return std::move(out).str();
}

Schedule schedule_from_text(std::string_view text) {
  Schedule schedule;
  TextReader lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    TextReader words(line.substr(0, line.find('#')));
    std::vector<Action> actions;
    for (std::string word; words >> word;) {
      const std::optional<Action> action = parse(word);
      if (!action)
        throw Error(concat("line ", number, ": '", word, "' is not an action; actions look like 0F3 or 1B0: stage, F, B, I or W, micro-batch"));
      actions.push_back(*action);
      schedule.stages = std::max(schedule.stages, action->stage + 1);
      schedule.micro_batches = std::max(schedule.micro_batches, action->micro_batch + 1);
    }
    if (!actions.empty()) schedule.devices.push_back(std::move(actions));
  }
  if (schedule.devices.empty()) throw Error("the schedule is empty: expected a line for each device");
  return schedule;
}

}  // namespace tw::pipeline
