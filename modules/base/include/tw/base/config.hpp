// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <tw/base/option.hpp>
#include <variant>
#include <vector>

namespace tw {

/// A typed configuration: reads TOML files and `key=value` settings, and fills the fields of options structs.
///
/// ```
/// auto config = Config::from_file("lenet.toml");
/// config.set("optimizer.lr=0.01");
/// config.bind(options);   // calls visit(); a field keeps its default if its key is not set
/// config.finish();        // throws ConfigError: every unknown key, wrong type and bad value at once
/// ```
/// A key is the dotted path of a value. A later setting replaces an earlier one of the same key. Lists hold booleans, numbers and strings.
class Config {
 public:
  /// The value of a field after bind(), and its origin.
  struct Entry {
    std::string key;
    std::string value;
    std::string origin;  ///< "default", "file.toml:3" or "--set"
  };

  Config() = default;
  /// Reads a TOML file. The optional key `version` of the file is the version of the file format, not a setting; only 1, the default, is supported.
  /// @throws FileError if the file cannot be read; ConfigError with the line if it is not TOML or has another version.
  static Config from_file(const std::filesystem::path& path);

  /// Sets one value from "key=value". The value is read as TOML or, if it is not TOML, as a string. Text fields get values such as 42, true and
  /// 2024-10-01 as written.
  /// @throws ConfigError if `assignment` has no '=' or an empty key.
  void set(std::string_view assignment, std::string_view origin = "--set");
  /// Sets one value to `text` as is, without parsing it as TOML.
  void set_text(const std::string& key, std::string text, std::string origin);

  /// Binds all fields of an options struct, see OptionVisitor. finish() reports values outside their bounds or choices; the fields of such values
  /// keep their defaults.
  template <class Options>
  void bind(Options& options);

  void bind(std::string_view key, bool& field);
  void bind(std::string_view key, int64_t& field);
  void bind(std::string_view key, double& field);
  void bind(std::string_view key, std::string& field);
  void bind(std::string_view key, std::filesystem::path& field);
  /// Binds a field that must be one of `allowed`.
  void bind(std::string_view key, std::string& field, const std::vector<std::string>& allowed);
  /// Binds a list of values of any type, as text. A single value is a list of one.
  void bind(std::string_view key, std::vector<std::string>& field);
  /// Binds a list of numbers. A single number is a list of one.
  void bind(std::string_view key, std::vector<double>& field);

  bool is_set(std::string_view key) const { return find(key) != nullptr; }
  /// The keys that are set and begin with `prefix`, sorted.
  std::vector<std::string> keys(std::string_view prefix = "") const;
  /// Moves a table out of this configuration: "table.key" becomes "key" in the result.
  Config extract(std::string_view table);
  /// Adds the settings and problems of `other`. A setting of `other` replaces one with the same key.
  void overlay(const Config& other);
  /// All settings as TOML, one key per line; parsing the text restores the same settings.
  std::string toml() const;
  /// All settings in the form that set() accepts, each on one line.
  std::vector<std::string> assignments() const;

  /// Adds a problem that finish() reports. For readers that check the meaning of values.
  void report(std::string problem);
  /// Adds a problem with a bound value. finish() reports it with the origin of the value and the nearest valid value.
  void report(const Problem& problem);

  /// Declares that `key` was renamed to `now`: if `key` is set, finish() reports its new name.
  void note_renamed(std::string key, std::string now) { renamed_.emplace(std::move(key), std::move(now)); }

  /// Call it when every key has been bound. @throws ConfigError with all problems, if there are any.
  void finish() const;

  /// The bound entries with their effective values, in the order in which they were bound.
  const std::vector<Entry>& entries() const noexcept { return entries_; }

 private:
  using Scalar = std::variant<bool, int64_t, double, std::string>;
  using Value = std::variant<bool, int64_t, double, std::string, std::vector<Scalar>>;
  struct Setting {
    Value value;
    std::string origin;
    std::string as_written = {};  // the text after "=" in set(); empty if read from a file
  };

  template <class T>
  void bind_typed(std::string_view key, T& field, const char* type_name);
  static std::string value_text(const Setting& setting);
  void insert_toml(std::string_view text, const std::string& source, bool with_lines, const std::string& as_written = {});
  const Setting* find(std::string_view key) const;

  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<Entry> entries_;
  std::vector<std::string> problems_;
  std::map<std::string, std::string> renamed_;
};

/// Writes settings into the fields of options.
class ConfigBinder final : public OptionVisitor {
 public:
  explicit ConfigBinder(Config& config) : config_(config) {}

 private:
  void flag(const Option& option, bool& value) override { config_.bind(option.key, value); }
  void whole(const Option& option, int64_t& value) override;
  void real(const Option& option, double& value) override;
  void text(const Option& option, std::string& value) override;
  void numbers(const Option& option, std::vector<double>& values) override;
  void texts(const Option& option, std::vector<std::string>& values) override { config_.bind(option.key, values); }
  void lists(const Option& option, std::vector<std::vector<double>>& rows) override;
  bool wants(const std::string& group) override { return !config_.keys(group + '.').empty(); }
  template <class Number>
  void number(const Option& option, Number& value);

  Config& config_;
};

template <class Options>
void Config::bind(Options& options) {
  ConfigBinder binder(*this);
  visit(options, binder);
}

}  // namespace tw
