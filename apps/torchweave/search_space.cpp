// SPDX-License-Identifier: Apache-2.0
#include "search_space.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/evolution/named_values.hpp>

namespace tw::tool {
namespace {

using search::Parameter;
using search::Scale;

const std::string root = "search.space.";
const std::string depends = ".when.";

std::set<std::string> names_in(Config& config) {
  std::set<std::string> names;
  for (const std::string& key : config.keys(root)) {
    const std::string rest = key.substr(root.size());
    const size_t end = std::min(rest.find(depends), rest.rfind('.'));
    if (end == std::string::npos || end == 0) {
      config.report(concat(key, " must be a table, such as [search.space.\"", rest, "\"] with kind, low and high"));
    } else {
      names.insert(rest.substr(0, end));
    }
  }
  return names;
}

template <class Enum>
void bind_choice(Config& config, const std::string& key, Enum& choice, const std::vector<std::pair<std::string, Enum>>& names) {
  ConfigBinder(config).field(key, choice, names, {});
}

void read_limits(Config& config, const std::string& table, Parameter& parameter) {
  const bool whole = parameter.kind == Parameter::Kind::integer;
  for (const auto& [key, limit] : {std::pair(table + "low", &parameter.low), std::pair(table + "high", &parameter.high)}) {
    if (!config.is_set(key)) {
      config.report(key + " is missing");
      *limit = limit == &parameter.low ? 1 : 2;
    } else if (whole) {
      int64_t number = 0;
      config.bind(key, number);
      *limit = static_cast<double>(number);
      continue;
    }
    config.bind(key, *limit);
  }
  bind_choice<Scale>(config, table + "scale", parameter.scale, {{"linear", Scale::linear}, {"log", Scale::logarithmic}});
  if (!whole) config.bind(table + "step", parameter.step);
  if (parameter.low > parameter.high) {
    config.report({table + "low", concat("is ", parameter.low, ", which is above high = ", parameter.high, ": the limits are reversed"),
                   concat(parameter.high)});
    std::swap(parameter.low, parameter.high);
  }
}

void read_choices(Config& config, const std::string& table, Parameter& parameter) {
  if (!config.is_set(table + "values")) config.report(table + "values is missing");
  if (parameter.kind == Parameter::Kind::categorical) {
    config.bind(table + "values", parameter.choices);
  } else {
    std::vector<double> numbers;
    config.bind(table + "values", numbers);
    parameter = search::ordinal(parameter.name, numbers);
  }
}

void read_condition(Config& config, const std::string& table, Parameter& parameter) {
  for (const std::string& key : config.keys(table + "when.")) {
    if (!parameter.parent.empty())
      config.report(concat(key, ": a parameter can depend on only one other, and ", parameter.name, " already depends on ", parameter.parent));
    parameter.parent = key.substr(table.size() + depends.size() - 1);
    parameter.allowed.clear();
    config.bind(key, parameter.allowed);
  }
}

/// A value of `parameter`: a choice, or a number in the form that the space reads.
std::string read_value(Config& config, const std::string& key, const Parameter& parameter) {
  std::string text;
  if (parameter.kind == Parameter::Kind::categorical) {
    config.bind(key, text);
    return text;
  }
  double number = 0;
  config.bind(key, number);
  return Parameter{}.text_of(number);
}

void read_initial(Config& config, const std::string& table, Parameter& parameter) {
  const std::string key = table + "initial";
  if (config.is_set(key)) parameter.initial = read_value(config, key, parameter);
}

Parameter read_parameter(Config& config, const std::string& name) {
  using Kind = Parameter::Kind;
  Parameter parameter{.name = name};
  const std::string table = root + name + '.';
  if (!config.is_set(table + "kind")) config.report(table + "kind is missing; it must be real, integer, ordinal or categorical");
  bind_choice<Kind>(config, table + "kind", parameter.kind,
                    {{"real", Kind::real}, {"integer", Kind::integer}, {"ordinal", Kind::ordinal}, {"categorical", Kind::categorical}});
  if (parameter.has_choices()) {
    read_choices(config, table, parameter);
  } else {
    read_limits(config, table, parameter);
  }
  read_initial(config, table, parameter);
  read_condition(config, table, parameter);
  return parameter;
}

/// Orders parameters so that each follows the one that it depends on. If that is missing, or if they depend on each other in a circle, they come
/// last.
std::vector<Parameter> in_order(std::vector<Parameter> waiting) {
  std::vector<Parameter> ordered;
  const auto is_there = [&](const std::string& name) { return std::ranges::any_of(ordered, [&](const Parameter& p) { return p.name == name; }); };
  while (!waiting.empty()) {
    const auto ready = std::ranges::find_if(waiting, [&](const Parameter& p) { return p.parent.empty() || is_there(p.parent); });
    const auto next = ready == waiting.end() ? waiting.begin() : ready;
    ordered.push_back(*next);
    waiting.erase(next);
  }
  return ordered;
}

}  // namespace

std::vector<Parameter> read_parameters(Config& config) {
  std::vector<Parameter> parameters;
  for (const std::string& name : names_in(config)) parameters.push_back(read_parameter(config, name));
  if (parameters.empty()) config.report("there is nothing to search: the configuration has no table [search.space.NAME]");
  return in_order(std::move(parameters));
}

std::vector<Start> read_starts(Config& config, const std::vector<Parameter>& parameters) {
  const std::string table = "search.start.";
  std::vector<Start> starts;
  for (const std::string& key : config.keys(table)) {
    const size_t dot = key.find('.', table.size());
    const std::string name = key.substr(table.size(), dot - table.size());
    const auto parameter = std::ranges::find(parameters, dot == std::string::npos ? "" : key.substr(dot + 1), &Parameter::name);
    if (parameter == parameters.end()) continue;  // finish() reports that the key is unknown
    if (starts.empty() || starts.back().name != name) starts.push_back({.name = name});
    starts.back().values[parameter->name] = read_value(config, key, *parameter);
  }
  return starts;
}

search::Space space_of(const std::vector<Parameter>& parameters, const std::vector<Start>& starts) {
  search::Space space(parameters);
  std::vector<std::string> problems;
  for (const Start& each : starts) {
    const size_t before = problems.size();
    const auto refuse = [&](const auto&... parts) { problems.push_back(concat("search.start.", each.name, ": ", parts...)); };
    try {
      const std::vector<double> values = search::values_of(space, each.values, search::Unnamed::starts);
      for (const auto& [name, text] : each.values) {
        if (std::isnan(values[space.index_of(name)])) refuse("parameter '", name, "' does not exist with the values of the other parameters");
      }
    } catch (const Error& error) {
      refuse(error.what());
    }
    if (problems.size() == before) space.start_at(each.values);
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return space;
}

std::vector<std::pair<std::string, std::string>> settings_of(const search::Space& space, const std::vector<double>& values) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (size_t i = 0; i < values.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    if (!std::isnan(values[i])) settings.emplace_back(parameter.name, parameter.text_of(values[i]));
  }
  return settings;
}

}  // namespace tw::tool
