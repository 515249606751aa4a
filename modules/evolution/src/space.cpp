// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/space.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/plain_text.hpp>
#include <tw/base/suggest.hpp>
#include <tw/evolution/configuration.hpp>
#include <unordered_map>
#include <unordered_set>

namespace tw::search {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

using Kind = Parameter::Kind;

/// Number of steps from the lower limit to the last value.
double last_step(const Parameter& p) {
  const double steps = (p.high - p.low) / p.step;  // with a tolerance for rounding: 0.95 / 0.05 is computed as less than 19
  return std::floor(steps + std::min(steps * 1e-12 + 1e-9, 0.5));
}

void validate_limits(const Parameter& p) {
  TW_EXPECTS(std::isfinite(p.low) && std::isfinite(p.high), "parameter '", p.name, "': limits must be finite, got ", p.low, " and ", p.high);
  TW_EXPECTS(p.low <= p.high, "parameter '", p.name, "': limits are reversed: ", p.low, " is above ", p.high);
  TW_EXPECTS(p.low < p.high || p.kind == Kind::integer, "parameter '", p.name, "': the range is empty: both limits are ", p.low);
  TW_EXPECTS(p.scale == Scale::linear || p.low > 0, "parameter '", p.name, "': a logarithmic scale needs positive limits, got ", p.low);
  TW_EXPECTS(std::isfinite(p.scale == Scale::linear ? p.high - p.low : p.high / p.low), "parameter '", p.name, "': limits ", p.low, " and ", p.high,
             " are too far apart: their ", p.scale == Scale::linear ? "difference" : "ratio", " must be a finite double");
  TW_EXPECTS(p.step == 0 || p.kind == Kind::real, "parameter '", p.name, "': the step of integers is always 1: leave it 0, got ", p.step);
  TW_EXPECTS(std::isfinite(p.step) && p.step >= 0 && p.step <= p.high - p.low, "parameter '", p.name, "': the step must be between 0 and ",
             p.high - p.low, ", got ", p.step);
  TW_EXPECTS(p.step == 0 || (p.low + p.step > p.low && p.high - p.step < p.high), "parameter '", p.name, "': the step ", p.step,
             " is smaller than the spacing of doubles between ", p.low, " and ", p.high, ": pass 0 for no steps");
  constexpr double most = 9007199254740992;  // 2^53: doubles represent all whole numbers up to here
  TW_EXPECTS(p.kind != Kind::integer || std::max(std::abs(p.low), std::abs(p.high)) <= most, "parameter '", p.name,
             "': integers are limited to 2^53");
}

void validate_choices(const Parameter& p) {
  TW_EXPECTS(!p.choices.empty(), "parameter '", p.name, "': the range is empty: it has no choices");
  TW_EXPECTS(p.numbers.size() == (p.kind == Kind::ordinal ? p.choices.size() : 0), "parameter '", p.name, "': ", p.choices.size(), " choices and ",
             p.numbers.size(), " numbers; an ordinal parameter needs one number per choice, a categorical one none");
  std::unordered_set<std::string_view> choices;
  for (const std::string& each : p.choices) TW_EXPECTS(choices.insert(each).second, "parameter '", p.name, "': the choice '", each, "' occurs twice");
  for (const double number : p.numbers) TW_EXPECTS(std::isfinite(number), "parameter '", p.name, "': ", number, " is not a finite number");
  TW_EXPECTS(std::ranges::is_sorted(p.numbers), "parameter '", p.name, "': ordinal numbers must ascend");
  const auto twice = std::ranges::adjacent_find(p.numbers);
  TW_EXPECTS(twice == p.numbers.end(), "parameter '", p.name, "': the number ", twice == p.numbers.end() ? 0 : *twice, " occurs twice");
}

/// The nearest value of a real or integer parameter.
double nearest(const Parameter& p, double value) {
  if (p.step > 0) return std::min(p.high, p.low + p.step * std::clamp(std::round((value - p.low) / p.step), 0.0, last_step(p)));
  return std::clamp(p.kind == Kind::integer ? std::round(value) : value, p.low, p.high);
}

/// The parameter's value for the text of a choice or number.
double value_of_text(const Parameter& p, const std::string& text) {
  if (p.kind == Kind::categorical) {
    const auto found = std::ranges::find(p.choices, text);
    return found == p.choices.end() ? none : static_cast<double>(found - p.choices.begin());
  }
  double value = none;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ptr != text.data() + text.size()) return none;
  if (p.kind == Kind::ordinal) {
    const auto found = std::ranges::find(p.numbers, value);
    return found == p.numbers.end() ? none : static_cast<double>(found - p.numbers.begin());
  }
  // With a tolerance for rounding: 3 * 0.1 is not 0.3.
  const double found = nearest(p, value);
  return std::abs(found - value) <= 1e-9 * p.step ? found : none;
}

/// @throws ContractError if the parameter has no such value
double value_of_start(const Parameter& p, const std::string& text) {
  const double value = p.value_of(text);
  TW_EXPECTS(!std::isnan(value), "parameter '", p.name, "' starts at '", text, "', which is not one of its values");
  return value;
}

/// Values of the parent for which `p` exists, ascending.
std::vector<double> allowed_values(const Parameter& p, const Parameter& parent) {
  std::unordered_map<std::string_view, double> indices;  // indices of choices; there may be many
  for (size_t i = 0; i < parent.choices.size(); ++i) indices.emplace(parent.choices[i], static_cast<double>(i));
  std::vector<double> values;
  for (const std::string& text : p.allowed) {
    const auto found = indices.find(text);
    values.push_back(found != indices.end() ? found->second : value_of_text(parent, text));
    TW_EXPECTS(!std::isnan(values.back()), "parameter '", p.name, "' exists when '", p.parent, "' is '", text,
               "', which is not one of the values of that parameter");
  }
  std::ranges::sort(values);
  return values;
}

/// NaN if there is none.
double initial_of(const Parameter& p) { return p.initial.empty() ? none : value_of_start(p, p.initial); }

/// Values 0 to n - 1 have equal shares of [0, 1]: the middle of a share, and the share that contains a position.
double middle(double index, double n) { return (index + 0.5) / n; }
double share(double unit, double n) { return std::clamp(std::floor(unit * n), 0.0, n - 1); }

}  // namespace

bool same_values(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

Parameter Parameter::when(std::string name_of_parent, std::vector<std::string> values) const {
  Parameter conditional = *this;
  conditional.parent = std::move(name_of_parent);
  conditional.allowed = std::move(values);
  return conditional;
}

Parameter Parameter::starting_at(std::string value) const {
  Parameter starting = *this;
  starting.initial = std::move(value);
  return starting;
}

int64_t Parameter::count() const noexcept {
  if (has_choices()) return static_cast<int64_t>(choices.size());
  if (kind == Kind::integer) return static_cast<int64_t>(high - low) + 1;
  return step > 0 ? static_cast<int64_t>(last_step(*this)) + 1 : 0;
}

std::string Parameter::text_of(double value) const {
  if (std::isnan(value)) return "-";
  return has_choices() ? choices.at(static_cast<size_t>(value)) : plain_text(value);
}

double Parameter::value_of(const std::string& text) const {
  const double value = value_of_text(*this, text);
  return has_choices() || (value >= low && value <= high) ? value : none;
}

Parameter real(std::string name, double low, double high, Scale scale, double step) {
  return {.name = std::move(name), .kind = Kind::real, .low = low, .high = high, .scale = scale, .step = step};
}

Parameter integer(std::string name, int64_t low, int64_t high, Scale scale) {
  return {.name = std::move(name), .kind = Kind::integer, .low = static_cast<double>(low), .high = static_cast<double>(high), .scale = scale};
}

Parameter ordinal(std::string name, std::vector<double> numbers) {
  Parameter p{.name = std::move(name), .kind = Kind::ordinal};
  for (const double number : numbers) p.choices.push_back(plain_text(number));
  p.numbers = std::move(numbers);
  return p;
}

Parameter categorical(std::string name, std::vector<std::string> choices) {
  return {.name = std::move(name), .kind = Kind::categorical, .choices = std::move(choices)};
}

Space::Space(std::initializer_list<Parameter> parameters) : Space(std::vector<Parameter>(parameters)) {}

Space::Space(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  TW_EXPECTS(!parameters_.empty(), "a space needs at least one parameter");
  std::unordered_map<std::string_view, size_t> declared;  // by name
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    TW_EXPECTS(!p.name.empty(), "parameter ", i, " has no name");
    const bool is_new = declared.emplace(p.name, i).second;
    TW_EXPECTS(is_new, "two parameters are called '", p.name, "'");
    p.has_choices() ? validate_choices(p) : validate_limits(p);
    Condition condition;
    if (!p.parent.empty()) {
      const auto parent = declared.find(p.parent);
      TW_EXPECTS(parent != declared.end() && parent->second < i, "parameter '", p.name, "' depends on '", p.parent,
                 "', which is not declared before it");
      TW_EXPECTS(!p.allowed.empty(), "parameter '", p.name, "' exists under no value of '", p.parent, "'");
      condition = {.parent = static_cast<int>(parent->second), .allowed = allowed_values(p, parameters_[parent->second])};
    }
    conditions_.push_back(std::move(condition));
    dimensions_ += p.kind == Kind::categorical ? p.choices.size() : 1;
  }
  std::vector<double> values = initial();
  if (std::ranges::all_of(values, [](double value) { return std::isnan(value); })) return;
  repair(values);
  starts_.push_back(std::move(values));
}

size_t Space::index_of(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  if (found != parameters_.end()) return static_cast<size_t>(found - parameters_.begin());
  std::vector<std::string> names;
  for (const Parameter& p : parameters_) names.push_back(p.name);
  TW_EXPECTS(false, "there is no parameter '", name, '\'', suggestion(name, names));
  return 0;
}

void Space::require(std::string name, std::function<bool(const Configuration&)> holds) {
  TW_EXPECTS(holds != nullptr, "constraint '", name, "' has no function");
  constraints_.push_back({std::move(name), std::move(holds)});
}

std::vector<std::string> Space::constraints() const {
  std::vector<std::string> names;
  for (const Constraint& each : constraints_) names.push_back(each.name);
  return names;
}

std::string Space::violated(const std::vector<double>& values) const {
  for (const Constraint& constraint : constraints_) {
    if (!constraint.holds(Configuration(*this, values))) return constraint.name;
  }
  return {};
}

bool Space::exists(size_t index, const std::vector<double>& values) const {
  const Condition& condition = conditions_[index];
  if (condition.parent < 0) return true;
  const double value = values[static_cast<size_t>(condition.parent)];
  return !std::isnan(value) && std::ranges::binary_search(condition.allowed, value);
}

void Space::repair(std::vector<double>& values) const {
  TW_EXPECTS(values.size() == size(), "a configuration of this space needs ", size(), " values, got ", values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (!exists(i, values)) {
      values[i] = none;
      continue;
    }
    double& value = values[i];
    if (std::isnan(value)) value = p.has_choices() ? 0 : from_unit(i, 0.5);
    if (p.has_choices()) {
      value = std::clamp(std::round(value), 0.0, static_cast<double>(p.choices.size() - 1));
    } else {
      value = nearest(p, value);
    }
  }
}

/// Not repaired.
std::vector<double> Space::initial() const {
  std::vector<double> values;
  for (const Parameter& p : parameters_) values.push_back(initial_of(p));
  return values;
}

void Space::start_at(const std::map<std::string, std::string>& texts) {
  std::vector<double> values = initial();
  for (const auto& [name, text] : texts) values[index_of(name)] = value_of_start(parameters_[index_of(name)], text);
  repair(values);
  for (const auto& [name, text] : texts) {
    TW_EXPECTS(!std::isnan(values[index_of(name)]), "parameter '", name, "' starts at '", text,
               "', but does not exist given the values of the others");
  }
  starts_.push_back(std::move(values));
}

bool Space::contains(const std::vector<double>& values) const {
  if (values.size() != size()) return false;
  std::vector<double> repaired = values;
  repair(repaired);
  return same_values(values, repaired);
}

double Space::to_unit(size_t index, double value) const {
  const Parameter& p = parameters_[index];
  if (p.has_choices()) return middle(value, static_cast<double>(p.choices.size()));
  if (p.step > 0 && p.scale == Scale::linear) return middle((value - p.low) / p.step, last_step(p) + 1);
  // Whole numbers have one share each: k has [k - 0.5, k + 0.5], in the scale.
  const double reach = p.kind == Kind::integer ? 0.5 : 0;
  const double low = p.low - reach;
  const double high = p.high + reach;
  if (p.scale == Scale::logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

double Space::from_unit(size_t index, double unit) const {
  const Parameter& p = parameters_[index];
  const double u = std::clamp(unit, 0.0, 1.0);
  if (p.has_choices()) return share(u, static_cast<double>(p.choices.size()));
  if (p.step > 0 && p.scale == Scale::linear) return nearest(p, p.low + p.step * share(u, last_step(p) + 1));
  const double reach = p.kind == Kind::integer ? 0.5 : 0;
  const double low = p.low - reach;
  const double high = p.high + reach;
  return nearest(p, p.scale == Scale::logarithmic ? low * std::pow(high / low, u) : low + u * (high - low));
}

std::vector<double> Space::encode(const std::vector<double>& values) const {
  TW_EXPECTS(values.size() == size(), "a configuration of this space needs ", size(), " values, got ", values.size());
  std::vector<double> position;
  position.reserve(dimensions_);
  for (size_t i = 0; i < size(); ++i) {
    const bool missing = std::isnan(values[i]);
    if (parameters_[i].kind != Kind::categorical) {
      position.push_back(missing ? 0.5 : to_unit(i, values[i]));
      continue;
    }
    for (size_t choice = 0; choice < parameters_[i].choices.size(); ++choice) {
      position.push_back(missing ? 0.5 : static_cast<double>(static_cast<double>(choice) == values[i]));
    }
  }
  return position;
}

std::vector<double> Space::decode(const std::vector<double>& position) const {
  TW_EXPECTS(position.size() == dimensions_, "a position in this space needs ", dimensions_, " numbers, got ", position.size());
  std::vector<double> values;
  values.reserve(size());
  auto at = position.begin();
  for (size_t i = 0; i < size(); ++i) {
    if (parameters_[i].kind != Kind::categorical) {
      values.push_back(from_unit(i, *at++));
      continue;
    }
    const auto end = at + static_cast<int64_t>(parameters_[i].choices.size());
    values.push_back(static_cast<double>(std::max_element(at, end) - at));
    at = end;
  }
  for (size_t i = 0; i < size(); ++i) {
    if (!exists(i, values)) values[i] = none;
  }
  return values;
}

uint64_t Space::hash() const {
  std::string text;
  for (const Parameter& p : parameters_) {
    text += concat(p.name, '|', static_cast<int>(p.kind), '|', exact_text(p.low), '|', exact_text(p.high), '|', static_cast<int>(p.scale), '|',
                   exact_text(p.step), '|', p.parent);
    for (const double each : p.numbers) text += '|' + exact_text(each);
    if (p.kind == Kind::categorical) {
      for (const std::string& each : p.choices) text += '|' + each;
    }
    for (const std::string& each : p.allowed) text += '&' + each;
    text += '\n';
  }
  return content_hash(text);
}

}  // namespace tw::search
