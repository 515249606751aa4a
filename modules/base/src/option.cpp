// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/base/option.hpp>
#include <tw/base/suggest.hpp>

namespace tw {
namespace {

std::string flag_text(bool value) { return value ? "true" : "false"; }
std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

/// A bound as text; without a fraction if the option is an integer.
std::string bound_text(double bound, bool is_whole) { return is_whole ? std::to_string(static_cast<int64_t>(bound)) : concat(bound); }

std::string nearest(const Bounds& bounds, double value, bool is_whole) {
  if (value > bounds.most || (bounds.excludes_most && value == bounds.most))
    return bound_text(bounds.excludes_most ? 0.99 * bounds.most : bounds.most, is_whole);
  if (!bounds.excludes_least) return bound_text(bounds.least, is_whole);
  return bounds.least == 0 ? "1e-4" : concat(1.01 * bounds.least);
}

/// "at least 0", "positive", "below 1".
std::string lower_text(const Bounds& bounds, bool is_whole) {
  if (bounds.excludes_least && bounds.least == 0) return "positive";
  return (bounds.excludes_least ? "above " : "at least ") + bound_text(bounds.least, is_whole);
}
std::string upper_text(const Bounds& bounds, bool is_whole) {
  return (bounds.excludes_most ? "below " : "at most ") + bound_text(bounds.most, is_whole);
}

std::optional<Problem> problem_of(const Option& option, double value, const std::string& text, bool is_whole) {
  const Bounds& bounds = option.bounds;
  if (bounds.hold(value)) return std::nullopt;
  const bool too_much = value > bounds.most || (bounds.excludes_most && value == bounds.most);
  return Problem{option.key, concat("must be ", too_much ? upper_text(bounds, is_whole) : lower_text(bounds, is_whole), ", got ", text),
                 nearest(bounds, value, is_whole)};
}

std::string range_text(const Bounds& bounds, bool is_whole) {
  const bool has_most = bounds.most < infinity && !(is_whole && bounds.most >= 2147483647);  // a limit that no count reaches
  std::string text = bounds.least > -infinity ? lower_text(bounds, is_whole) : "";
  if (has_most) text += (text.empty() ? "" : ", ") + upper_text(bounds, is_whole);
  return text.empty() ? "a number" : text;
}

/// "[1, 2]"
template <class Value, class Text>
std::string listed(const std::vector<Value>& values, Text text) {
  return '[' + joined(values, ", ", text) + ']';
}

std::string condition_text(const std::vector<Condition>& conditions) {
  std::string text;
  for (const Condition& each : conditions) {
    text += concat(text.empty() ? "with `" : " and `", each.key, each.negated ? "` other than " : "` = ", joined(each.values));
  }
  return text;
}

}  // namespace

bool Bounds::hold(double value) const noexcept {
  return (excludes_least ? value > least : value >= least) && (excludes_most ? value < most : value <= most);
}

Option OptionVisitor::option(std::string_view key, About about, Bounds bounds, std::vector<std::string> choices) const {
  about.applies_if.insert(about.applies_if.begin(), applies_if_.begin(), applies_if_.end());
  return {prefix_ + std::string(key), std::move(about), bounds, std::move(choices)};
}

void OptionVisitor::field(std::string_view key, int& value, Bounds bounds, About about) {
  int64_t wide = value;
  field(key, wide, bounds, std::move(about));
  value = static_cast<int>(std::clamp<int64_t>(wide, INT32_MIN, INT32_MAX));
}

void OptionVisitor::field(std::string_view key, uint64_t& value, Bounds bounds, About about) {
  auto number = static_cast<int64_t>(value);
  field(key, number, bounds, std::move(about));
  value = static_cast<uint64_t>(number);
}

void OptionVisitor::field(std::string_view key, std::vector<int64_t>& values, Bounds bounds, About about) {
  Option list = option(key, std::move(about), bounds);
  list.is_whole = true;
  std::vector<double> reals(values.begin(), values.end());
  numbers(list, reals);
  values.clear();
  for (const double each : reals) values.push_back(static_cast<int64_t>(std::clamp(each, -9007199254740992.0, 9007199254740992.0)));
}

void OptionVisitor::field(std::string_view key, std::vector<int>& values, Bounds bounds, About about) {
  std::vector<int64_t> wide(values.begin(), values.end());
  field(key, wide, bounds, std::move(about));
  values.clear();
  for (const int64_t each : wide) values.push_back(static_cast<int>(std::clamp<int64_t>(each, INT32_MIN, INT32_MAX)));
}

void OptionVisitor::lists(const Option& option, std::vector<std::vector<double>>& rows) {
  for (size_t row = 0; row < rows.size(); ++row) {
    Option each = option;
    each.key += concat('.', row);
    if (!rows[row].empty()) numbers(each, rows[row]);
  }
}

void OptionVisitor::field(std::string_view key, std::filesystem::path& value, About about) {
  std::string name = value.string();
  field(key, name, std::move(about));
  value = name;
}

std::optional<Problem> problem_of(const Option& option, int64_t value) {
  return problem_of(option, static_cast<double>(value), std::to_string(value), /*is_whole=*/true);
}

std::optional<Problem> problem_of(const Option& option, double value) {
  if (option.is_whole && value != std::floor(value)) {
    return Problem{option.key, concat("must be whole numbers, got ", value), concat(std::floor(value))};
  }
  return problem_of(option, value, concat(value), option.is_whole);
}

void BoundsCheck::whole(const Option& option, int64_t& value) {
  if (const auto problem = problem_of(option, value)) problems.push_back(*problem);
}

void BoundsCheck::real(const Option& option, double& value) {
  if (const auto problem = problem_of(option, value)) problems.push_back(*problem);
}

void BoundsCheck::text(const Option& option, std::string& value) {
  if (option.choices.empty() || std::ranges::find(option.choices, value) != option.choices.end()) return;
  const std::string nearest = nearest_name(value, option.choices);
  problems.push_back({option.key, unknown_text(value, option.choices), in_quotes(nearest)});
}

void BoundsCheck::numbers(const Option& option, std::vector<double>& values) {
  for (const double each : values) {
    if (const auto problem = problem_of(option, each)) return problems.push_back(*problem);
  }
}

void ValueLines::add(const Option& option, const std::string& value) {
  if (!option.about.may_differ) lines.push_back(concat(option.key, ' ', value));
}

void ValueLines::flag(const Option& option, bool& value) { add(option, flag_text(value)); }
void ValueLines::whole(const Option& option, int64_t& value) { add(option, std::to_string(value)); }
void ValueLines::real(const Option& option, double& value) { add(option, exact_text(value)); }
void ValueLines::text(const Option& option, std::string& value) { add(option, value); }

void ValueLines::numbers(const Option& option, std::vector<double>& values) {
  add(option, listed(values, [](double each) { return exact_text(each); }));
}

void ValueLines::texts(const Option& option, std::vector<std::string>& values) { add(option, listed(values, in_quotes)); }
void ValueLines::given(const std::string& key, bool is_given) { lines.push_back(key + (is_given ? " given" : " not given")); }

void OptionTable::flag(const Option& option, bool& value) { add(option, flag_text(value), "true, false"); }

void OptionTable::whole(const Option& option, int64_t& value) { add(option, std::to_string(value), range_text(option.bounds, /*is_whole=*/true)); }

void OptionTable::real(const Option& option, double& value) { add(option, concat(value), range_text(option.bounds, /*is_whole=*/false)); }

void OptionTable::text(const Option& option, std::string& value) {
  add(option, in_quotes(value), option.choices.empty() ? "a string" : joined(option.choices));
}

void OptionTable::numbers(const Option& option, std::vector<double>& values) {
  const std::string range = range_text(option.bounds, option.is_whole);
  add(option, listed(values, [](double each) { return concat(each); }), "a list, each " + range);
}

void OptionTable::texts(const Option& option, std::vector<std::string>& values) { add(option, listed(values, in_quotes), "a list of strings"); }

void OptionTable::lists(const Option& option, std::vector<std::vector<double>>& /*rows*/) {
  Option each = option;
  each.key += ".0, .1, ...";
  std::vector<double> none;
  numbers(each, none);
}

void OptionTable::add(const Option& option, const std::string& value, const std::string& range) {
  const std::string& unit = option.about.unit;
  const std::string condition = condition_text(option.about.applies_if);
  table += concat("| `", option.key, "` | ", value, " | ", range, unit.empty() ? "" : " (" + unit + ')', " | ", option.about.meaning,
                  condition.empty() ? "" : "; " + condition, " |\n");
}

void expect_none(const std::vector<Problem>& problems) { TW_EXPECTS(problems.empty(), problems.front().key, ' ', problems.front().what); }

}  // namespace tw
