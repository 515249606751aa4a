// SPDX-License-Identifier: Apache-2.0
#include "command_objective.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/suggest.hpp>

#include "child_process.hpp"
#include "command_template.hpp"
#include "search_space.hpp"

namespace tw::tool {
namespace {

constexpr auto read_timeout = std::chrono::milliseconds(50);

const std::vector<std::string>& variables_of_mpi() {
  static const std::vector<std::string> beginnings{"OMPI_", "PMIX_", "PMI_"};
  return beginnings;
}

struct Message {
  std::optional<std::vector<double>> numbers = {};  // one for each name
  std::optional<double> value = {};
  int64_t step = 0;
};

// The message in a line that a program printed; empty if the line is not a message.
Message message_in(const std::string& line, const std::vector<std::string>& names) {
  Message message;
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos || line[begin] != '{') return message;
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const std::string& name) {
    if (!json[name].is_number()) throw Error(concat('"', name, "\" must be a number: ", line.substr(0, 200)));
    return json[name].get<double>();
  };
  if (!json.is_object()) {
    if (line.find('"' + names.front() + '"') != std::string::npos)
      throw Error("the program printed a line that is not valid JSON: " + line.substr(0, 200));
    return message;
  }
  if (std::ranges::all_of(names, [&](const std::string& name) { return json.contains(name); })) {
    message.numbers.emplace();
    for (const std::string& name : names) message.numbers->push_back(number(name));
  }
  if (json.contains("step") && json.contains("value")) {
    message.value = number("value");
    const double step = number("step");
    if (!(std::abs(step) <= 0x1p53) || step != std::floor(step)) throw Error("\"step\" must be a whole number: " + line.substr(0, 200));
    message.step = static_cast<int64_t>(step);
  }
  return message;
}

}  // namespace

CommandObjective::CommandObjective(const search::Space& space, CommandOptions options) : options_(std::move(options)) {
  if (options_.objectives.empty()) options_.objectives = {"loss"};
  const std::vector<std::string> names = names_in_braces(options_.command);
  std::vector<std::string> problems;
  for (const search::Parameter& parameter : space.parameters()) {
    if (std::ranges::find(names, parameter.name) != names.end()) continue;
    const std::string nearest = nearest_name(parameter.name, names);
    problems.push_back(concat("parameter ", parameter.name, " does not occur in the command: write {", parameter.name, '}',
                              nearest.empty() ? "" : concat(" where its value belongs, perhaps instead of {", nearest, '}')));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

std::string CommandObjective::command_for(const search::Space& space, const std::vector<double>& values) const {
  std::map<std::string, std::string> texts;
  for (const search::Parameter& parameter : space.parameters()) texts[parameter.name];
  for (const auto& [name, text] : settings_of(space, values)) texts[name] = text;
  return fill_in(options_.command, texts);
}

std::vector<std::string> CommandObjective::names() const {
  std::vector<std::string> names = options_.objectives;
  names.insert(names.end(), options_.constraints.begin(), options_.constraints.end());
  return names;
}

/// @throws Error if the program has failed
void CommandObjective::expect_success(const ChildProcess& child, bool is_late, bool has_told) const {
  if (is_late) throw Error(concat("the program took longer than ", options_.timeout_s, " s (--timeout)"));
  const std::string said = child.last_error().empty() ? "" : ": " + child.last_error();
  if (!child.failure().empty()) throw Error(child.failure() + said);
  if (has_told) return;
  std::string line;
  for (const std::string& name : names()) line += concat(line.empty() ? "{" : ", ", '"', name, "\": NUMBER");
  throw Error("the program printed no line " + line + '}' + said);
}

search::Outcome CommandObjective::operator()(const search::Configuration& configuration, search::Trial& trial) const {
  ChildProcess child(command_for(configuration.space(), configuration.values()), variables_of_mpi());
  const Stopwatch watch;
  Stopwatch since_asked;
  std::optional<std::vector<double>> numbers;
  bool stopped = false;
  bool late = false;
  const auto ask_to_end = [&](bool& why) {
    why = true;
    since_asked.restart();
    child.terminate();
  };
  while (!child.ended()) {
    for (const std::string& line : child.read_lines(read_timeout)) {
      const Message message = message_in(line, names());
      if (message.numbers) numbers = message.numbers;
      if (message.value && !stopped && !late && !trial.report(message.step, *message.value)) ask_to_end(stopped);
    }
    trial.process_messages();
    if (child.ended()) break;
    if (!stopped && !late && watch.elapsed().count() >= options_.timeout_s) ask_to_end(late);
    if ((stopped || late) && since_asked.elapsed().count() >= options_.grace_s) child.kill();
  }
  if (!stopped) expect_success(child, late, numbers.has_value());
  if (!numbers) return std::numeric_limits<double>::infinity();  // the reported values count
  const auto constraints = numbers->begin() + static_cast<int64_t>(options_.objectives.size());
  return search::Outcome(std::vector(numbers->begin(), constraints)).constrained({constraints, numbers->end()});
}

}  // namespace tw::tool
