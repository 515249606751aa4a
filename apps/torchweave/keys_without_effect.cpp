// SPDX-License-Identifier: Apache-2.0
#include "keys_without_effect.hpp"

#include <algorithm>
#include <map>
#include <tw/base/concat.hpp>
#include <vector>

#include "search_config.hpp"
#include "train_config.hpp"

namespace tw::tool {
namespace {

/// Collects the conditions under which options have an effect, by key.
class Conditions final : public OptionVisitor {
 public:
  std::map<std::string, std::vector<Condition>, std::less<>> of;

 private:
  void flag(const Option& option, bool&) override { of[option.key] = option.about.applies_if; }
  void whole(const Option& option, int64_t&) override { of[option.key] = option.about.applies_if; }
  void real(const Option& option, double&) override { of[option.key] = option.about.applies_if; }
  void text(const Option& option, std::string&) override { of[option.key] = option.about.applies_if; }
  void numbers(const Option& option, std::vector<double>&) override { of[option.key] = option.about.applies_if; }
  void texts(const Option& option, std::vector<std::string>&) override { of[option.key] = option.about.applies_if; }
};

/// The value of a key, as print_settings() shows it.
std::string value_of(const Config& config, const std::string& key) {
  const auto found = std::ranges::find(config.entries(), key, &Config::Entry::key);
  return found == config.entries().end() ? "" : found->value;
}

bool is_met(const Config& config, const Condition& condition) {
  const std::string value = value_of(config, condition.key);
  const bool listed = std::ranges::any_of(condition.values, [&](const std::string& each) { return value == each || value == '"' + each + '"'; });
  return listed != condition.negated;
}

// The first unmet condition of `key`; null if there is none. Conditions on keys that have no effect themselves are ignored.
const Condition* unmet_condition(const Config& config, const Conditions& conditions, const std::string& key) {
  const auto found = conditions.of.find(key);
  if (found == conditions.of.end()) return nullptr;
  for (const Condition& each : found->second) {
    if (!is_met(config, each) && unmet_condition(config, conditions, each.key) == nullptr) return &each;
  }
  return nullptr;
}

std::string explain(const Config& config, const Config::Entry& entry, const Condition& condition) {
  const std::string value = value_of(config, condition.key);
  std::string text = concat(entry.origin, ": ", entry.key, " has no effect with ", condition.key, " = ", value);
  if (condition.negated) return text;
  const std::string quote = value.starts_with('"') ? "\"" : "";
  return concat(text, "; it is for ", quote, joined(condition.values, quote + " or " + quote), quote);
}

}  // namespace

std::vector<std::string> keys_without_effect(const Config& config) {
  Conditions conditions;
  TrainConfig training;
  visit(training, conditions);
  SearchConfig search;
  conditions.group("search", search);
  std::vector<std::string> lines;
  for (const Config::Entry& entry : config.entries()) {
    const Condition* condition = entry.origin == "default" ? nullptr : unmet_condition(config, conditions, entry.key);
    if (condition != nullptr) lines.push_back(explain(config, entry, *condition));
  }
  return lines;
}

}  // namespace tw::tool
