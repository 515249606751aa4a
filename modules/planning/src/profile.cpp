// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/profile.hpp>

#include <cmath>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw::pipeline {
namespace {

bool is_cost(const Affine& cost) { return std::isfinite(cost.fixed) && std::isfinite(cost.per_row) && cost.fixed >= 0 && cost.per_row >= 0; }

std::vector<std::string> problems_of_operator(const Profile& profile, int index) {
  const ProfiledOperator& op = profile.operators[static_cast<size_t>(index)];
  std::vector<std::string> problems;
  const auto report = [&](const auto&... parts) { problems.push_back(concat("operators[", index, "] \"", op.name, "\": ", parts...)); };
  if (op.name.empty() || op.name.find(" .. ") != std::string::npos) report("name must not be empty or contain \" .. \"");
  for (const int input : op.inputs) {
    if (input < -1 || input >= index) report("inputs has ", input, "; expected the index of an earlier operator, or -1 for the model's input");
  }
  for (const int parameter : op.parameters) {
    if (parameter < 0 || parameter >= static_cast<int>(profile.parameters.size())) report("parameters has ", parameter, ", which does not exist");
  }
  const std::pair<const char*, const Affine*> costs[] = {{"forward", &op.forward},
                                                         {"backward", &op.backward},
                                                         {"weights", &op.weights},
                                                         {"output_bytes", &op.output_bytes},
                                                         {"saved_bytes", &op.saved_bytes},
                                                         {"workspace_bytes", &op.workspace_bytes},
                                                         {"waiting_bytes", &op.waiting_bytes}};
  for (const auto& [name, cost] : costs) {
    if (!is_cost(*cost)) report(name, " must be finite and at least 0, got ", cost->fixed, " + ", cost->per_row, " per row");
  }
  return problems;
}

}  // namespace

Affine& Affine::operator+=(const Affine& other) noexcept {
  fixed += other.fixed;
  per_row += other.per_row;
  return *this;
}

Affine& Affine::operator-=(const Affine& other) noexcept {
  fixed -= other.fixed;
  per_row -= other.per_row;
  return *this;
}

std::vector<std::string> problems_of(const Profile& profile) {
  std::vector<std::string> problems;
  if (profile.operators.empty()) problems.emplace_back("operators must not be empty");
  if (!is_cost(profile.input_bytes)) problems.emplace_back("input_bytes must be finite and at least 0");
  for (const ProfiledParameter& parameter : profile.parameters) {
    if (!std::isfinite(parameter.bytes) || parameter.bytes < 0)
      problems.push_back(concat("parameter \"", parameter.name, "\" has ", parameter.bytes, " bytes; expected a finite number of at least 0"));
  }
  for (const int output : profile.outputs) {
    if (output >= -1 && output < static_cast<int>(profile.operators.size())) continue;
    problems.push_back(concat("outputs has ", output, ", which does not exist"));
  }
  std::set<std::string_view> names;
  for (size_t i = 0; i < profile.operators.size(); ++i) {
    for (std::string& problem : problems_of_operator(profile, static_cast<int>(i))) problems.push_back(std::move(problem));
    if (!names.insert(profile.operators[i].name).second) problems.push_back(concat("two operators are called \"", profile.operators[i].name, '"'));
  }
  return problems;
}

void Profile::validate() const {
  const std::vector<std::string> problems = problems_of(*this);
  TW_EXPECTS(problems.empty(), problems.front());
}

}  // namespace tw::pipeline
