// SPDX-License-Identifier: Apache-2.0
#include "description.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/evolution/named_values.hpp>
#include <utility>
#include <vector>

namespace tw::search {
namespace {

using nlohmann::json;

constexpr const char* file_of_description = "search.json";
constexpr int64_t description_version = 1;
constexpr double infinite = std::numeric_limits<double>::infinity();

json parameter_json(const Parameter& p) {
  return {{"name", p.name},
          {"kind", static_cast<int>(p.kind)},
          {"low", p.low},
          {"high", p.high},
          {"scale", static_cast<int>(p.scale)},
          {"step", p.step},
          {"choices", p.choices},
          {"numbers", p.numbers},
          {"parent", p.parent},
          {"allowed", p.allowed},
          {"initial", p.initial}};
}

Parameter parameter_in(const json& p) {
  return {.name = p.at("name"),
          .kind = static_cast<Parameter::Kind>(p.at("kind").get<int>()),
          .low = p.at("low"),
          .high = p.at("high"),
          .scale = static_cast<Scale>(p.at("scale").get<int>()),
          .step = p.at("step"),
          .choices = p.at("choices"),
          .numbers = p.at("numbers"),
          .parent = p.at("parent"),
          .allowed = p.at("allowed"),
          .initial = p.at("initial")};
}

/// JSON has no infinity.
json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(); }
double number_or(const json& value, double otherwise) { return value.is_null() ? otherwise : value.get<double>(); }

}  // namespace

std::string description_of(const Space& space, const SearchOptions& options) {
  json parameters = json::array();
  for (const Parameter& each : space.parameters()) parameters.push_back(parameter_json(each));
  json starts = json::array();  // without the one that follows from the parameters
  for (size_t i = Space(space.parameters()).starts().size(); i < space.starts().size(); ++i) starts.push_back(named_texts(space, space.starts()[i]));
  const json description{{"version", description_version},
                         {"parameters", parameters},
                         {"starts", starts},
                         {"evaluations", options.evaluations},
                         {"seconds", number_or_null(options.seconds)},
                         {"target", number_or_null(options.target)}};
  std::string text;
  try {
    text = description.dump(2) + '\n';
  } catch (const json::exception& error) {
    TW_EXPECTS(false, "parameters and choices must have names in UTF-8, since the search's description is JSON: ", error.what());
  }
  return text;
}

void write_description(const std::filesystem::path& folder, const Space& space, const SearchOptions& options) {
  replace_file(folder / file_of_description, description_of(space, options));
}

Description read_description(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / file_of_description;
  std::ifstream in(path);
  if (!in) throw FileError(path, 0, "cannot be opened: no search has begun in this folder, or an earlier version began it");
  try {
    const json description = json::parse(in);
    const int64_t version = description.value("version", int64_t{1});  // files without a version are of version 1
    if (version != description_version) throw Error(concat("its version is ", version, ", only ", description_version, " is supported"));
    std::vector<Parameter> parameters;
    for (const json& each : description.at("parameters")) parameters.push_back(parameter_in(each));
    Space space(std::move(parameters));
    for (const json& each : description.value("starts", json::array()))
      space.start_at(each.get<NamedTexts>());  // missing in files of earlier versions
    return {.space = std::move(space),
            .evaluations = description.at("evaluations"),
            .seconds = number_or(description.at("seconds"), infinite),
            .target = number_or(description.at("target"), -infinite)};
  } catch (const std::exception& error) {
    throw FileError(path, 0, error.what());
  }
}

}  // namespace tw::search
