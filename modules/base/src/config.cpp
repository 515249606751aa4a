// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/config.hpp>
#include <tw/base/error.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/base/file.hpp>
#include <tw/base/suggest.hpp>
#include <tw/base/text_stream.hpp>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include <toml++/toml.h>

namespace tw {
namespace {

constexpr int64_t config_version = 1;

using Scalar = std::variant<bool, int64_t, double, std::string>;

// Texts for messages.
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return concat(value); }
std::string text_of(const std::string& value) { return '"' + value + '"'; }

// A value as one-line TOML with the fewest exact digits: toml++ writes 17 digits of each real number, so that 0.1 becomes 0.10000000000000001.
std::string exact(double value) {
  const std::string digits = exact_text(value);
  return digits.find_first_not_of("-0123456789") == std::string::npos ? digits + ".0" : digits;  // otherwise it would be read as an integer
}
template <class T>
std::string exact(const T& value) {
  const toml::value<T> node(value);
  TextWriter out;
  out << toml::toml_formatter(node, toml::format_flags::allow_unicode_strings);
  return std::move(out).str();
}

template <class ElementText>
std::string list_text(const std::vector<Scalar>& list, ElementText element_text) {
  return '[' + joined(list, ", ", [&](const Scalar& element) { return std::visit(element_text, element); }) + ']';
}
std::string text_of(const std::vector<Scalar>& list) {
  return list_text(list, [](const auto& element) { return text_of(element); });
}
std::string exact(const std::vector<Scalar>& list) {  // toml++ breaks some lists into several lines
  return list_text(list, [](const auto& element) { return exact(element); });
}

// Shows 1.0 as such if an integer is expected.
std::string given_text(double value) { return exact(value); }
std::string given_text(const auto& value) { return text_of(value); }

/// A single value counts as a list of one.
struct AsList {
  std::vector<Scalar> operator()(const std::vector<Scalar>& list) const { return list; }
  std::vector<Scalar> operator()(const auto& scalar) const { return {Scalar(scalar)}; }
};

std::optional<Scalar> scalar_of(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* string = node.as_string()) return string->get();
  return std::nullopt;
}

std::optional<std::vector<Scalar>> list_of(const toml::array& array) {
  std::vector<Scalar> list;
  for (const toml::node& node : array) {
    const std::optional<Scalar> scalar = scalar_of(node);
    if (!scalar) return std::nullopt;
    list.push_back(*scalar);
  }
  return list;
}

// A key as written in a file: quoted unless it is a bare key.
std::string key_text(const std::string& key) {
  const bool bare = std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  });
  return bare && !key.empty() && key.front() != '.' && key.back() != '.' && key.find("..") == std::string::npos ? key : exact(key);
}

}  // namespace

Config Config::from_file(const std::filesystem::path& path) {
  Config config;
  config.insert_toml(read_file(path), path.filename().string(), /*with_lines=*/true);
  if (const Setting* version = config.find("version")) {
    const int64_t* number = std::get_if<int64_t>(&version->value);
    if (number == nullptr || *number != config_version) {
      throw ConfigError({concat(version->origin, ": version is ", value_text(*version), ", but only ", config_version, " is supported by Torchweave ",
                                version_string)});
    }
    config.settings_.erase("version");
  }
  return config;
}

void Config::set(std::string_view assignment, std::string_view origin) {
  const size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string_view::npos) {
    throw ConfigError({concat("'", assignment, "' is not of the form key=value")});
  }
  const std::string key(assignment.substr(0, equals));
  const std::string value(assignment.substr(equals + 1));
  try {
    const size_t problems = problems_.size();
    insert_toml(key + " = " + value, std::string(origin), /*with_lines=*/false, value);
    if (problems_.size() == problems) return;
    problems_.resize(problems);   // TOML of a type that no field has, such as the date 2024-10-01: insert as text
  } catch (const ConfigError&) {  // not a TOML value: a bare word such as adam or data/train
  }
  set_text(key, value, std::string(origin));
}

void Config::set_text(const std::string& key, std::string text, std::string origin) { settings_[key] = {std::move(text), std::move(origin), {}}; }

void Config::insert_toml(std::string_view text, const std::string& source, bool with_lines, const std::string& as_written) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    throw ConfigError({concat(source, ":", at.line, ":", at.column, ": ", error.description())});
  }
  const auto insert = [&](const auto& self, const toml::table& from, const std::string& prefix, const std::string& written) -> void {
    for (const auto& [name, node] : from) {
      const std::string key = prefix.empty() ? std::string(name.str()) : concat(prefix, ".", name.str());
      const std::string origin = with_lines ? concat(source, ":", node.source().begin.line) : source;
      if (const auto* inner = node.as_table()) {
        self(self, *inner, key, inner->is_inline() ? "" : written);  // in {name = 42} the whole text is not a single value
      } else if (const auto scalar = scalar_of(node)) {
        settings_[key] = {std::visit([](const auto& value) { return Value(value); }, *scalar), origin, written};
      } else if (const auto list = node.is_array() ? list_of(*node.as_array()) : std::nullopt) {
        settings_[key] = {*list, origin, written};
      } else {
        problems_.push_back(concat(origin, ": ", key, " must be a boolean, a number, a string or a list of these"));
      }
    }
  };
  insert(insert, table, "", as_written);
}

std::vector<std::string> Config::keys(std::string_view prefix) const {
  std::vector<std::string> found;
  for (const auto& [key, setting] : settings_) {
    if (key.starts_with(prefix)) found.push_back(key);
  }
  return found;
}

Config Config::extract(std::string_view table) {
  const std::string prefix = std::string(table) + '.';
  Config taken;
  for (const std::string& key : keys(prefix)) {
    auto node = settings_.extract(key);
    node.key() = key.substr(prefix.size());
    taken.settings_.insert(std::move(node));
  }
  return taken;
}

void Config::overlay(const Config& other) {
  for (const auto& [key, setting] : other.settings_) settings_[key] = setting;
  problems_.insert(problems_.end(), other.problems_.begin(), other.problems_.end());
}

std::string Config::toml() const {
  std::string text;
  for (const auto& [key, setting] : settings_) text += key_text(key) + " = " + value_text(setting) + '\n';
  return text;
}

std::vector<std::string> Config::assignments() const {
  std::vector<std::string> all;
  for (const auto& [key, setting] : settings_) all.push_back(key_text(key) + '=' + value_text(setting));
  return all;
}

std::string Config::value_text(const Setting& setting) {
  return std::visit([](const auto& value) { return exact(value); }, setting.value);
}

const Config::Setting* Config::find(std::string_view key) const {
  const auto found = settings_.find(key);
  return found == settings_.end() ? nullptr : &found->second;
}

template <class T>
void Config::bind_typed(std::string_view key, T& field, const char* type_name) {
  std::string origin = "default";
  if (const Setting* setting = find(key)) {
    origin = setting->origin;
    if (const T* exact = std::get_if<T>(&setting->value)) {
      field = *exact;
    } else if (const int64_t* integer = std::get_if<int64_t>(&setting->value); integer && std::is_same_v<T, double>) {
      if constexpr (std::is_same_v<T, double>) field = static_cast<double>(*integer);
    } else {
      const std::string given = std::visit([](const auto& value) { return given_text(value); }, setting->value);
      report(concat(origin, ": ", key, " must be ", type_name, ", got ", given));
    }
  }
  entries_.push_back({std::string(key), text_of(field), origin});
}

void Config::bind(std::string_view key, bool& field) { bind_typed(key, field, "true or false"); }
void Config::bind(std::string_view key, int64_t& field) { bind_typed(key, field, "an integer"); }
void Config::bind(std::string_view key, double& field) { bind_typed(key, field, "a number"); }
void Config::bind(std::string_view key, std::string& field) {
  const auto found = settings_.find(key);
  const bool looks_otherwise = found != settings_.end() && !std::holds_alternative<std::string>(found->second.value);
  if (looks_otherwise && !found->second.as_written.empty()) found->second.value = found->second.as_written;  // name=42: the field's type decides
  bind_typed(key, field, "a string");
}

void Config::bind(std::string_view key, std::filesystem::path& field) {
  std::string text = field.string();
  bind(key, text);
  field = text;
}

void Config::bind(std::string_view key, std::string& field, const std::vector<std::string>& allowed) {
  bind(key, field);
  if (std::find(allowed.begin(), allowed.end(), field) == allowed.end()) {
    report(concat(entries_.back().origin, ": ", key, ' ', unknown_text(field, allowed), "; the nearest is \"", nearest_name(field, allowed), '"'));
  }
}

void Config::bind(std::string_view key, std::vector<std::string>& field) {
  std::string origin = "default";
  if (const Setting* setting = find(key)) {
    origin = setting->origin;
    field.clear();
    for (const Scalar& element : std::visit(AsList{}, setting->value)) {
      const auto* text = std::get_if<std::string>(&element);
      field.push_back(text != nullptr ? *text : std::visit([](const auto& value) { return exact(value); }, element));
    }
  }
  entries_.push_back({std::string(key), text_of(std::vector<Scalar>(field.begin(), field.end())), origin});
}

void Config::bind(std::string_view key, std::vector<double>& field) {
  std::string origin = "default";
  if (const Setting* setting = find(key)) {
    origin = setting->origin;
    const std::vector<Scalar> list = std::visit(AsList{}, setting->value);
    std::vector<double> numbers;
    for (const Scalar& element : list) {
      if (const auto* integer = std::get_if<int64_t>(&element)) numbers.push_back(static_cast<double>(*integer));
      if (const auto* real = std::get_if<double>(&element)) numbers.push_back(*real);
    }
    if (numbers.size() == list.size()) {
      field = numbers;
    } else {
      const std::string given = std::visit([](const auto& value) { return text_of(value); }, setting->value);
      report(concat(origin, ": ", key, " must be a list of numbers, got ", given));
    }
  }
  entries_.push_back({std::string(key), text_of(std::vector<Scalar>(field.begin(), field.end())), origin});
}

void Config::report(std::string problem) { problems_.push_back(std::move(problem)); }

void Config::report(const Problem& problem) {
  const auto entry = std::ranges::find(entries_, problem.key, &Entry::key);
  const std::string origin = entry == entries_.end() ? "" : entry->origin + ": ";
  report(concat(origin, problem.key, ' ', problem.what, "; the nearest valid value is ", problem.nearest));
}

void Config::finish() const {
  std::vector<std::string> known;
  for (const Entry& entry : entries_) known.push_back(entry.key);
  std::vector<std::string> problems = problems_;
  for (const auto& [key, setting] : settings_) {
    if (const auto renamed = renamed_.find(key); renamed != renamed_.end()) {
      problems.push_back(concat(setting.origin, ": ", key, " is now called ", renamed->second));
    } else if (std::find(known.begin(), known.end(), key) == known.end()) {
      problems.push_back(concat(setting.origin, ": unknown key ", key, suggestion(key, known, "")));
    }
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

template <class Number>
void ConfigBinder::number(const Option& option, Number& value) {
  const Number before = value;
  config_.bind(option.key, value);
  const std::optional<Problem> problem = problem_of(option, value);
  if (!problem) return;
  config_.report(*problem);
  value = before;
}

void ConfigBinder::whole(const Option& option, int64_t& value) { number(option, value); }
void ConfigBinder::real(const Option& option, double& value) { number(option, value); }

void ConfigBinder::numbers(const Option& option, std::vector<double>& values) {
  const std::vector<double> before = values;
  config_.bind(option.key, values);
  for (const double each : values) {
    const std::optional<Problem> problem = problem_of(option, each);
    if (!problem) continue;
    config_.report(*problem);
    values = before;
    return;
  }
}

void ConfigBinder::lists(const Option& option, std::vector<std::vector<double>>& rows) {
  constexpr size_t most = 10000;  // rows: a wrong number must not exhaust the memory
  const std::string table = option.key + '.';
  for (const std::string& key : config_.keys(table)) {
    Option each = option;
    each.key = key;
    size_t row = 0;
    while (row < most && key != concat(table, row)) ++row;
    std::vector<double> values;
    numbers(each, values);
    if (row == most) {
      config_.report({key, concat("must end with a number from 0 to ", most - 1), table + '0'});
      continue;
    }
    if (rows.size() <= row) rows.resize(row + 1);
    rows[row] = values;
  }
}

void ConfigBinder::text(const Option& option, std::string& value) {
  if (option.choices.empty()) return config_.bind(option.key, value);
  const std::string before = value;
  config_.bind(option.key, value, option.choices);
  if (std::ranges::find(option.choices, value) == option.choices.end()) value = before;  // the error has been reported
}

}  // namespace tw
