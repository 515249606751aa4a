// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/schedule.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/text_stream.hpp>

namespace tw::pipeline {
namespace {

/// @param warm_up by stage, the number of forward passes before forward and backward passes alternate
template <class WarmUp>
Schedule alternating(int stages, int micro_batches, const WarmUp& warm_up) {
  TW_EXPECTS(stages >= 1, "a pipeline must have at least one stage, got ", stages);
  TW_EXPECTS(micro_batches >= 1, "a batch must have at least one micro-batch, got ", micro_batches);
  Schedule schedule{stages, micro_batches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<Action>& actions = schedule.devices.emplace_back();
    const int ahead = std::min(warm_up(stage), micro_batches);
    for (int m = 0; m < ahead; ++m) actions.push_back({Action::Kind::forward, stage, m});
    for (int m = 0; m < micro_batches; ++m) {
      if (ahead + m < micro_batches) actions.push_back({Action::Kind::forward, stage, ahead + m});
      actions.push_back({Action::Kind::backward, stage, m});
    }
  }
  return schedule;
}

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
  if (!stage || word.empty() || (word.front() != 'F' && word.front() != 'B')) return std::nullopt;
  const Action::Kind kind = word.front() == 'F' ? Action::Kind::forward : Action::Kind::backward;
  word.remove_prefix(1);
  const std::optional<int> micro_batch = take_number(word);
  if (!micro_batch || !word.empty()) return std::nullopt;
  return Action{kind, *stage, *micro_batch};
}

}  // namespace

Schedule gpipe(int stages, int micro_batches) {
  return alternating(stages, micro_batches, [&](int /*stage*/) { return micro_batches; });
}

Schedule one_forward_one_backward(int stages, int micro_batches) {
  return alternating(stages, micro_batches, [&](int stage) { return stages - 1 - stage; });
}

std::string to_text(const Schedule& schedule) {
  TextWriter out;
  for (const std::vector<Action>& device : schedule.devices) {
    for (size_t i = 0; i < device.size(); ++i) {
      out << (i > 0 ? " " : "") << device[i].stage << (device[i].is_forward() ? 'F' : 'B') << device[i].micro_batch;
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
      if (!action) throw Error(concat("line ", number, ": '", word, "' is not an action; actions look like 0F3 or 1B0: stage, F or B, micro-batch"));
      actions.push_back(*action);
      schedule.stages = std::max(schedule.stages, action->stage + 1);
      schedule.micro_batches = std::max(schedule.micro_batches, action->micro_batch + 1);
    }
    if (!actions.empty()) schedule.devices.push_back(std::move(actions));
  }
  if (schedule.devices.empty()) throw Error("a schedule needs a line for each device, got none");
  return schedule;
}

}  // namespace tw::pipeline
