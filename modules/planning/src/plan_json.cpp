// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <ranges>
#include <tw/base/concat.hpp>
#include <tw/planning/plan.hpp>

#include "json_fields.hpp"
#include "text.hpp"

namespace tw::pipeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t plan_version = 1;

/// Indices of operators by name.
class Names {
 public:
  explicit Names(const Profile& profile) {
    for (size_t i = 0; i < profile.operators.size(); ++i) index_of_[profile.operators[i].name] = static_cast<int>(i);
  }
  /// Parses "a" or "a .. b".
  std::pair<int, int> range(const std::string& text, const std::string& where) const {
    const size_t dots = text.find(" .. ");
    const int first = one(text.substr(0, dots), where);
    const int last = dots == std::string::npos ? first : one(text.substr(dots + 4), where);
    if (last < first) throw Error(concat(where, ": \"", text, "\" ends before it begins"));
    return {first, last};
  }

 private:
  int one(const std::string& name, const std::string& where) const {
    const auto found = index_of_.find(name);
    if (found == index_of_.end()) throw Error(concat(where, ": there is no operator \"", name, '"'));
    return found->second;
  }

  std::map<std::string, int, std::less<>> index_of_;
};

std::vector<int> operators_from(const nlohmann::json& json, const char* name, const Names& names, const std::string& where) {
  std::vector<int> operators;
  for (const auto& text : field<std::vector<std::string>>(json, name, where)) {
    const auto [first, last] = names.range(text, concat(where, '.', name));
    for (int op = first; op <= last; ++op) operators.push_back(op);
  }
  std::sort(operators.begin(), operators.end());
  return operators;
}

template <class Kind>
Kind kind_from(const nlohmann::json& json, const char* key, const std::vector<std::pair<std::string, Kind>>& names, const std::string& where) {
  const auto text = field<std::string>(json, key, where);
  for (const auto& [name, kind] : names) {
    if (text == name) return kind;
  }
  throw Error(concat(where, '.', key, " is \"", text, "\", must be one of ", joined(std::views::keys(names))));
}

/// Plans of earlier versions have times in milliseconds, and not all of them: their figures stay unset.
StageFigures figures_from(const nlohmann::json& json, const std::string& where) {
  StageFigures figures;
  if (json.contains("forward_ms")) {
    refuse_others(json, {"forward_ms", "backward_ms", "all_reduce_ms", "memory_bytes"}, where);
    return figures;
  }
  refuse_others(json, {"forward_s", "backward_s", "weights_s", "transfer_s", "all_reduce_s", "memory_bytes"}, where);
  const auto time = [&](const char* name) {
    const auto seconds = field<double>(json, name, where);
    if (seconds < 0) throw Error(concat(where, '.', name, " must be at least 0, got ", seconds));
    return seconds;
  };
  figures.forward_s = time("forward_s");
  figures.backward_s = time("backward_s");
  figures.weights_s = time("weights_s");
  figures.transfer_s = time("transfer_s");
  if (figures.weights_s > figures.backward_s)
    throw Error(concat(where, ".weights_s is ", figures.weights_s, ", but it is a part of backward_s, which is ", figures.backward_s));
  return figures;
}

StagePlan stage_from(const nlohmann::json& json, const Names& names, const std::string& where) {
  refuse_others(json, {"operators", "replicas", "recompute", "segments", "predicted"}, where);
  StagePlan stage{.operators = operators_from(json, "operators", names, where),
                  .replicas = field<int>(json, "replicas", where),
                  .recompute = kind_from(json, "recompute", recompute_names(), where)};
  if (json.contains("segments")) stage.segments = operators_from(json, "segments", names, where);
  if (json.contains("predicted")) stage.figures = figures_from(json["predicted"], where + ".predicted");
  return stage;
}

Json figures_json(const StageFigures& figures) {
  return {{"forward_s", figures.forward_s},   {"backward_s", figures.backward_s},     {"weights_s", figures.weights_s},
          {"transfer_s", figures.transfer_s}, {"all_reduce_s", figures.all_reduce_s}, {"memory_bytes", figures.memory.total()}};
}

}  // namespace

std::string to_json(const Plan& plan, const Profile& profile) {
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    Json json{{"operators", name_ranges(stage.operators, profile)}, {"replicas", stage.replicas}, {"recompute", name_of(stage.recompute)}};
    if (stage.recompute == Recompute::selective) {
      json["segments"] = Json::array();
      for (const int op : stage.segments) json["segments"].push_back(profile.operators[static_cast<size_t>(op)].name);
    }
    json["predicted"] = figures_json(stage.figures);
    stages.push_back(json);
  }
  const Json json{{"version", plan_version},
                  {"hash", plan.hash},
                  {"batch", plan.batch},
                  {"micro_batches", plan.micro_batches},
                  {"schedule", name_of(plan.schedule)},
                  {"predicted", {{"step_s", plan.step_s}, {"bubble", plan.bubble}}},
                  {"stages", stages}};
  return json.dump(2) + '\n';
}

Plan plan_from_json(std::string_view text, const Profile& profile, int devices) {
  const nlohmann::json json = parse_json(text, "the plan");
  expect_version(json, plan_version, "plan");
  refuse_others(json, {"version", "hash", "batch", "micro_batches", "schedule", "predicted", "stages"}, "plan");
  Plan plan{.hash = field<std::string>(json, "hash", "plan"),
            .batch = field<int64_t>(json, "batch", "plan"),
            .micro_batches = field<int>(json, "micro_batches", "plan"),
            .schedule = kind_from(json, "schedule", schedule_names(), "plan")};
  if (json.contains("predicted")) refuse_others(json["predicted"], {"step_s", "step_ms", "bubble"}, "plan.predicted");
  // Checked first: for a plan of another model, messages about operator names would be misleading.
  if (plan.hash != profile.hash) throw Error(wrong_hash(plan, profile));
  const Names names(profile);
  for (const auto& stage : field<std::vector<nlohmann::json>>(json, "stages", "plan")) {
    plan.stages.push_back(stage_from(stage, names, concat("plan.stages[", plan.stages.size(), ']')));
  }
  const std::vector<std::string> problems = problems_of(plan, profile, devices);
  if (!problems.empty()) throw Error("the plan is invalid for this model and number of devices: " + problems.front());
  return plan;
}

}  // namespace tw::pipeline
