// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/config.hpp>
#include <tw/base/error.hpp>
#include <tw/base/suggest.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <type_traits>
#include <utility>

#include <toml++/toml.h>

namespace tw {
namespace {

std::string shown(bool value) { return value ? "true" : "false"; }
std::string shown(int64_t value) { return std::to_string(value); }
std::string shown(double value) { return concat(value); }
std::string shown(const std::string& value) { return '"' + value + '"'; }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FileError(path, 0, "cannot be opened");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

Config Config::from_file(const std::filesystem::path& path) {
  Config config;
  config.insert_toml(read_text(path), path.filename().string(), /*with_lines=*/true);
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
    insert_toml(key + " = " + value, std::string(origin), /*with_lines=*/false);
  } catch (const ConfigError&) {  // not a TOML value: a bare word such as adam or data/train
    set_text(key, value, std::string(origin));
  }
}

void Config::set_text(const std::string& key, std::string text, std::string origin) { settings_[key] = {std::move(text), std::move(origin)}; }

void Config::insert_toml(std::string_view text, const std::string& source, bool with_lines) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    throw ConfigError({concat(source, ":", at.line, ":", at.column, ": ", error.description())});
  }
  const auto insert = [&](const auto& self, const toml::table& from, const std::string& prefix) -> void {
    for (const auto& [name, node] : from) {
      const std::string key = prefix.empty() ? std::string(name.str()) : concat(prefix, ".", name.str());
      const std::string origin = with_lines ? concat(source, ":", node.source().begin.line) : source;
      if (const auto* inner = node.as_table()) {
        self(self, *inner, key);
      } else if (const auto* flag = node.as_boolean()) {
        settings_[key] = {flag->get(), origin};
      } else if (const auto* integer = node.as_integer()) {
        settings_[key] = {integer->get(), origin};
      } else if (const auto* real = node.as_floating_point()) {
        settings_[key] = {real->get(), origin};
      } else if (const auto* string = node.as_string()) {
        settings_[key] = {string->get(), origin};
      } else {
        problems_.push_back(concat(origin, ": ", key, " must be a boolean, a number or a string"));
      }
    }
  };
  insert(insert, table, "");
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
      const std::string given = std::visit([](const auto& value) { return shown(value); }, setting->value);
      report(concat(origin, ": ", key, " must be ", type_name, ", got ", given));
    }
  }
  entries_.push_back({std::string(key), shown(field), origin});
}

void Config::bind(std::string_view key, bool& field) { bind_typed(key, field, "true or false"); }
void Config::bind(std::string_view key, int64_t& field) { bind_typed(key, field, "an integer"); }
void Config::bind(std::string_view key, double& field) { bind_typed(key, field, "a number"); }
void Config::bind(std::string_view key, std::string& field) { bind_typed(key, field, "a string"); }

void Config::bind(std::string_view key, std::filesystem::path& field) {
  std::string text = field.string();
  bind(key, text);
  field = text;
}

void Config::bind(std::string_view key, std::string& field, const std::vector<std::string>& allowed) {
  bind(key, field);
  if (std::find(allowed.begin(), allowed.end(), field) == allowed.end()) {
    report(concat(entries_.back().origin, ": ", key, " is \"", field, "\", which is unknown; the nearest is \"", nearest_name(field, allowed), "\""));
  }
}

void Config::report(std::string problem) { problems_.push_back(std::move(problem)); }

void Config::finish() const {
  std::vector<std::string> known;
  for (const Entry& entry : entries_) known.push_back(entry.key);
  std::vector<std::string> problems = problems_;
  for (const auto& [key, setting] : settings_) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      problems.push_back(concat(setting.origin, ": unknown key ", key, "; did you mean ", nearest_name(key, known), "?"));
    }
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace tw
