// SPDX-License-Identifier: Apache-2.0
#include "json_fields.hpp"

#include <array>
#include <tw/planning/profile.hpp>

namespace tw::pipeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t profile_version = 2;

Json json_of(const Affine& cost) { return Json::array({cost.fixed, cost.per_row}); }

Affine affine(const nlohmann::json& object, const char* name, const std::string& where) {
  const auto pair = field<std::vector<double>>(object, name, where);
  if (pair.size() != 2) throw Error(concat(where, '.', name, " must be two numbers, fixed and per row"));
  return {pair[0], pair[1]};
}

ProfiledOperator operator_from(const nlohmann::json& json, const std::string& where) {
  refuse_others(
      json,
      {"name", "inputs", "parameters", "forward_s", "backward_s", "weights_s", "output_bytes", "saved_bytes", "workspace_bytes", "waiting_bytes"},
      where);
  return {.name = field<std::string>(json, "name", where),
          .inputs = field<std::vector<int>>(json, "inputs", where),
          .parameters = field<std::vector<int>>(json, "parameters", where),
          .forward = affine(json, "forward_s", where),
          .backward = affine(json, "backward_s", where),
          .weights = affine(json, "weights_s", where),
          .output_bytes = affine(json, "output_bytes", where),
          .saved_bytes = affine(json, "saved_bytes", where),
          .workspace_bytes = affine(json, "workspace_bytes", where),
          .waiting_bytes = affine(json, "waiting_bytes", where)};
}

}  // namespace

std::string to_json(const Profile& profile) {
  Json operators = Json::array();
  for (const ProfiledOperator& op : profile.operators) {
    operators.push_back({{"name", op.name},
                         {"inputs", op.inputs},
                         {"parameters", op.parameters},
                         {"forward_s", json_of(op.forward)},
                         {"backward_s", json_of(op.backward)},
                         {"weights_s", json_of(op.weights)},
                         {"output_bytes", json_of(op.output_bytes)},
                         {"saved_bytes", json_of(op.saved_bytes)},
                         {"workspace_bytes", json_of(op.workspace_bytes)},
                         {"waiting_bytes", json_of(op.waiting_bytes)}});
  }
  Json parameters = Json::array();
  for (const ProfiledParameter& parameter : profile.parameters) parameters.push_back({{"name", parameter.name}, {"bytes", parameter.bytes}});
  return Json{{"version", profile_version}, {"hash", profile.hash},     {"input_bytes", json_of(profile.input_bytes)},
              {"operators", operators},     {"parameters", parameters}, {"outputs", profile.outputs}}
      .dump();
}

Profile profile_from_json(std::string_view text) {
  const nlohmann::json json = parse_json(text, "the profile");
  expect_version(json, profile_version, "profile");
  refuse_others(json, {"version", "hash", "input_bytes", "operators", "parameters", "outputs"}, "profile");
  Profile profile{.hash = field<std::string>(json, "hash", "profile"), .input_bytes = affine(json, "input_bytes", "profile")};
  for (const auto& entry : field<std::vector<nlohmann::json>>(json, "operators", "profile")) {
    profile.operators.push_back(operator_from(entry, concat("profile.operators[", profile.operators.size(), ']')));
  }
  for (const auto& entry : field<std::vector<nlohmann::json>>(json, "parameters", "profile")) {
    const std::string where = concat("profile.parameters[", profile.parameters.size(), ']');
    refuse_others(entry, {"name", "bytes"}, where);
    profile.parameters.push_back({field<std::string>(entry, "name", where), field<double>(entry, "bytes", where)});
  }
  profile.outputs = field<std::vector<int>>(json, "outputs", "profile");
  const std::vector<std::string> problems = problems_of(profile);
  if (!problems.empty()) throw Error("the profile is invalid: " + problems.front());
  return profile;
}

}  // namespace tw::pipeline
