// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tw/base/numbers.hpp>
#include <utility>
#include <vector>

namespace tw {

/// The allowed range of a number. Both ends are included, unless `excludes_least` or `excludes_most` is set. NaN lies in no range.
struct Bounds {
  double least = -infinity;
  double most = infinity;
  bool excludes_least = false;  ///< whether `least` itself is excluded
  bool excludes_most = false;   ///< whether `most` itself is excluded

  bool hold(double value) const noexcept;
};

/// The argument `most` of at_least() for a count without an upper limit.
constexpr double any_count = 9223372036854775807.0;
/// The bounds of a count; by default at most the largest int.
constexpr Bounds at_least(double least, double most = 2147483647) { return {.least = least, .most = most}; }

/// A condition on another option: its value must be one of `values` or, with `negated`, none of them.
struct Condition {
  std::string key;
  std::vector<std::string> values;
  bool negated = false;
};

/// The description of an option, in addition to its key, default and bounds.
struct About {
  std::string meaning;
  std::string unit = {};
  std::vector<Condition> applies_if = {};  ///< conditions under which the option has an effect; all must hold. Empty: always
  bool may_differ = false;                 ///< whether ranks may have different values
};

struct Option {
  std::string key;  ///< including the prefixes of its groups: "checkpoint.keep"
  About about;
  Bounds bounds = {};                     ///< bounds of a number, or of each number in a list
  std::vector<std::string> choices = {};  ///< allowed values of a text; empty: any text
  bool is_whole = false;                  ///< for a list of numbers: whether each must be an integer
};

/// Visits the fields of an options struct. Classes that read, check, compare or explain options derive from it. Each options struct has a function
/// `visit(options, visitor)` that calls field() once for each field and group() for each nested struct, in the order of the documentation.
///
/// ```
/// void visit(CheckpointPolicy& policy, OptionVisitor& visitor) {
///   visitor.field("keep", policy.keep, at_least(1), {.meaning = "number of newest checkpoints that are kept"});
/// }
/// ```
class OptionVisitor {
 public:
  OptionVisitor() = default;
  OptionVisitor(const OptionVisitor&) = delete;
  OptionVisitor& operator=(const OptionVisitor&) = delete;
  virtual ~OptionVisitor() = default;

  void field(std::string_view key, bool& value, About about) { flag(option(key, std::move(about)), value); }
  void field(std::string_view key, int64_t& value, Bounds bounds, About about) { whole(option(key, std::move(about), bounds), value); }
  void field(std::string_view key, int& value, Bounds bounds, About about);
  void field(std::string_view key, uint64_t& value, Bounds bounds, About about);
  void field(std::string_view key, double& value, Bounds bounds, About about) { real(option(key, std::move(about), bounds), value); }
  void field(std::string_view key, std::string& value, About about) { text(option(key, std::move(about)), value); }
  void field(std::string_view key, std::filesystem::path& value, About about);
  /// A text that is one of `choices`.
  void field(std::string_view key, std::string& value, std::vector<std::string> choices, About about) {
    text(option(key, std::move(about), {}, std::move(choices)), value);
  }
  void field(std::string_view key, std::vector<double>& values, Bounds bounds, About about) {
    numbers(option(key, std::move(about), bounds), values);
  }
  void field(std::string_view key, std::vector<int>& values, Bounds bounds, About about);
  void field(std::string_view key, std::vector<int64_t>& values, Bounds bounds, About about);
  void field(std::string_view key, std::vector<std::string>& values, About about) { texts(option(key, std::move(about)), values); }
  /// A list of lists: its items have the keys "KEY.0", "KEY.1", and so on. Empty items are left out.
  void field(std::string_view key, std::vector<std::vector<double>>& rows, Bounds bounds, About about) {
    lists(option(key, std::move(about), bounds), rows);
  }
  /// An option that can be set only in C++, such as a function: the visitor receives only whether it is set.
  void presence(std::string_view key, bool is_given) { given(prefix_ + std::string(key), is_given); }
  /// An optional value, which is visited if it is set. `rest` are the arguments that follow a plain value of this type.
  template <class Value, class... Rest>
  void field(std::string_view key, std::optional<Value>& value, Rest&&... rest) {
    presence(key, value.has_value());
    if (value) field(key, *value, std::forward<Rest>(rest)...);
  }
  /// A value of an enumeration, visited by its name.
  template <class Enum>
  void field(std::string_view key, Enum& value, const std::vector<std::pair<std::string, Enum>>& names, About about) {
    std::vector<std::string> choices;
    std::string chosen;
    for (const auto& [name, each] : names) {
      choices.push_back(name);
      if (each == value) chosen = name;
    }
    field(key, chosen, std::move(choices), std::move(about));
    for (const auto& [name, each] : names) {
      if (name == chosen) value = each;
    }
  }
  /// A list of enumeration values, visited by their names. Unknown names are dropped.
  template <class Enum>
  void field(std::string_view key, std::vector<Enum>& values, const std::vector<std::pair<std::string, Enum>>& names, About about) {
    std::vector<std::string> chosen;
    for (const Enum value : values) {
      for (const auto& [name, each] : names) {
        if (each == value) chosen.push_back(name);
      }
    }
    field(key, chosen, std::move(about));
    values.clear();
    for (const std::string& each : chosen) {
      for (const auto& [name, value] : names) {
        if (name == each) values.push_back(value);
      }
    }
  }
  /// The fields of a nested struct, under `prefix` and a dot. @param applies_if conditions on all of its fields
  template <class Options>
  void group(std::string_view prefix, Options& options, const std::vector<Condition>& applies_if = {}) {
    const std::string outer_prefix = prefix_;
    const size_t outer_conditions = applies_if_.size();
    prefix_ += std::string(prefix) + '.';
    applies_if_.insert(applies_if_.end(), applies_if.begin(), applies_if.end());
    visit(options, *this);
    prefix_ = outer_prefix;
    applies_if_.resize(outer_conditions);
  }
  /// Like group() for a plain struct, but an unset struct is visited only if wants() is true. It is then first set to its defaults.
  template <class Options>
  void group(std::string_view prefix, std::optional<Options>& options, const std::vector<Condition>& applies_if = {}) {
    const std::string key = prefix_ + std::string(prefix);
    given(key, options.has_value());
    if (!options && !wants(key)) return;
    if (!options) options.emplace();
    group(prefix, *options, applies_if);
  }

 protected:
  virtual void flag(const Option& option, bool& value) = 0;
  virtual void whole(const Option& option, int64_t& value) = 0;
  virtual void real(const Option& option, double& value) = 0;
  virtual void text(const Option& option, std::string& value) = 0;
  virtual void numbers(const Option& option, std::vector<double>& values) = 0;
  virtual void texts(const Option& option, std::vector<std::string>& values) = 0;
  /// By default calls numbers() for each list that is not empty.
  virtual void lists(const Option& option, std::vector<std::vector<double>>& rows);
  virtual void given(const std::string& /*key*/, bool /*is_given*/) {}
  /// Whether to create an unset group, with its defaults.
  virtual bool wants(const std::string& /*group*/) { return false; }

 private:
  Option option(std::string_view key, About about, Bounds bounds = {}, std::vector<std::string> choices = {}) const;

  std::string prefix_;
  std::vector<Condition> applies_if_;
};

/// A problem with the value of an option, and the nearest valid value: {"epochs", "must be at least 0, got -1", "0"}.
struct Problem {
  std::string key;
  std::string what;
  std::string nearest;
};

/// The problem if `value` lies outside the bounds of `option`, or has a fraction although `option.is_whole`.
std::optional<Problem> problem_of(const Option& option, int64_t value);
std::optional<Problem> problem_of(const Option& option, double value);

/// Collects the problems of values outside their bounds or choices; at most one problem per list.
class BoundsCheck final : public OptionVisitor {
 public:
  std::vector<Problem> problems;

 private:
  void flag(const Option&, bool&) override {}
  void whole(const Option& option, int64_t& value) override;
  void real(const Option& option, double& value) override;
  void text(const Option& option, std::string& value) override;
  void numbers(const Option& option, std::vector<double>& values) override;
  void texts(const Option&, std::vector<std::string>&) override {}
};

/// Writes the values, one per line, such as "epochs 3". The texts of numbers are exact. Options with About::may_differ are left out.
class ValueLines final : public OptionVisitor {
 public:
  std::vector<std::string> lines;

 private:
  void flag(const Option& option, bool& value) override;
  void whole(const Option& option, int64_t& value) override;
  void real(const Option& option, double& value) override;
  void text(const Option& option, std::string& value) override;
  void numbers(const Option& option, std::vector<double>& values) override;
  void texts(const Option& option, std::vector<std::string>& values) override;
  void given(const std::string& key, bool is_given) override;
  void add(const Option& option, const std::string& value);
};

/// A Markdown table that describes all options. The column "default" shows their current values.
class OptionTable final : public OptionVisitor {
 public:
  std::string table = "| key | default | values | meaning |\n|---|---|---|---|\n";

 private:
  void flag(const Option& option, bool& value) override;
  void whole(const Option& option, int64_t& value) override;
  void real(const Option& option, double& value) override;
  void text(const Option& option, std::string& value) override;
  void numbers(const Option& option, std::vector<double>& values) override;
  void texts(const Option& option, std::vector<std::string>& values) override;
  void lists(const Option& option, std::vector<std::vector<double>>& rows) override;
  bool wants(const std::string& /*group*/) override { return true; }
  void add(const Option& option, const std::string& value, const std::string& range);
};

/// The problems of values of `options` outside their bounds or choices.
template <class Options>
std::vector<Problem> out_of_bounds(Options options) {
  BoundsCheck check;
  visit(options, check);
  return std::move(check.problems);
}

/// Like out_of_bounds(options), with `prefix` and a dot before each key.
template <class Options>
std::vector<Problem> out_of_bounds(std::string_view prefix, Options options) {
  BoundsCheck check;
  check.group(prefix, options);
  return std::move(check.problems);
}

/// The values on which ranks must agree, one per line; see ValueLines.
template <class Options>
std::vector<std::string> value_lines(Options options) {
  ValueLines values;
  visit(options, values);
  return std::move(values.lines);
}

/// @throws ContractError with the first problem, if there is one
void expect_none(const std::vector<Problem>& problems);

}  // namespace tw
