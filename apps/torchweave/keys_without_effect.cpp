// SPDX-License-Identifier: Apache-2.0
#include "keys_without_effect.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <tw/base/concat.hpp>

namespace tw::tool {
namespace {

/// Keys that begin with `prefix` are read where `key` has one of these values; `but`: any value but these.
struct Condition {
  std::string_view prefix;
  std::string_view key;
  std::array<std::string_view, 3> values;  // as the settings show them
  bool but = false;
};

constexpr Condition conditions[] = {
    {"batch_size", "global_batch", {"0"}},
    {"model.width", "model.name", {"\"mlp\""}},
    {"model.hidden_layers", "model.name", {"\"mlp\""}},
    {"model.blocks", "model.name", {"\"resnet\""}},
    {"model.layers", "model.name", {"\"residual\""}},
    {"model.channels", "model.name", {"\"residual\"", "\"convnet\""}},
    {"model.conv_layers", "model.name", {"\"convnet\""}},
    {"model.activation", "model.name", {"\"convnet\""}},
    {"model.path", "model.name", {"\"torchscript\""}},
    {"layer_parallel.", "model.name", {"\"residual\""}},
    {"pipeline.", "mesh.stage", {"1"}, /*but=*/true},
    {"optimizer.momentum", "optimizer.name", {"\"sgd\"", "\"rmsprop\""}},
    {"schedule.step_", "schedule.decay", {"\"step\""}},
    {"schedule.final_factor", "schedule.decay", {"\"cosine\""}},
    {"strategy.top_k_fraction", "strategy.compression", {"\"top_k\""}},
    {"strategy.power_sgd_rank", "strategy.compression", {"\"power_sgd\""}},
    {"strategy.period", "strategy.name", {"\"local_sgd\"", "\"diloco\"", "\"parameter_server\""}},
    {"strategy.outer_", "strategy.name", {"\"diloco\""}},
    {"strategy.algorithm", "strategy.name", {"\"parameter_server\""}},
    {"strategy.beta", "strategy.name", {"\"parameter_server\""}},
    {"strategy.staleness", "strategy.name", {"\"parameter_server\""}},
    {"strategy.period", "strategy.algorithm", {"\"downpour\"", "\"easgd\"", "\"eamsgd\""}},
    {"strategy.beta", "strategy.algorithm", {"\"easgd\"", "\"eamsgd\""}},
    {"strategy.staleness", "strategy.algorithm", {"\"ssp\""}},
};

std::string value_of(const Config& config, std::string_view key) {
  const auto found = std::ranges::find(config.entries(), key, &Config::Entry::key);
  return found == config.entries().end() ? "" : found->value;
}

// The first condition that keeps `key` from being read. One on a key that is itself not read says nothing.
const Condition* hindrance(const Config& config, std::string_view key) {
  for (const Condition& condition : conditions) {
    if (!key.starts_with(condition.prefix)) continue;
    const bool listed = std::ranges::find(condition.values, value_of(config, condition.key)) != condition.values.end();
    if (listed == condition.but && hindrance(config, condition.key) == nullptr) return &condition;
  }
  return nullptr;
}

std::string explain(const Config& config, const Config::Entry& entry, const Condition& condition) {
  std::string text = concat(entry.origin, ": ", entry.key, " has no effect with ", condition.key, " = ", value_of(config, condition.key));
  if (condition.but) return text;
  std::string values;
  for (const std::string_view value : condition.values) {
    if (!value.empty()) values += concat(values.empty() ? "" : " or ", value);
  }
  return concat(text, "; it is for ", values);
}

}  // namespace

std::vector<std::string> keys_without_effect(const Config& config) {
  std::vector<std::string> lines;
  for (const Config::Entry& entry : config.entries()) {
    const Condition* condition = entry.origin == "default" ? nullptr : hindrance(config, entry.key);
    if (condition != nullptr) lines.push_back(explain(config, entry, *condition));
  }
  return lines;
}

}  // namespace tw::tool
