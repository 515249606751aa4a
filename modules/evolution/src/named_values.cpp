// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/named_values.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/suggest.hpp>

namespace tw::search {
namespace {

void expect_known(const Space& space, const NamedTexts& texts) {
  std::vector<std::string> names;
  for (const Parameter& each : space.parameters()) names.push_back(each.name);
  for (const auto& [name, text] : texts) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Error(concat("there is no parameter '", name, '\'', suggestion(name, names)));
  }
}

}  // namespace

std::vector<double> values_of(const Space& space, const NamedTexts& texts, Unnamed unnamed) {
  expect_known(space, texts);
  std::vector<double> values(space.size(), std::numeric_limits<double>::quiet_NaN());
  for (size_t i = 0; i < values.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    if (!space.exists(i, values)) continue;
    const auto named = texts.find(parameter.name);
    if (named == texts.end()) {
      if (unnamed == Unnamed::refused) throw Error(concat("parameter '", parameter.name, "' is missing"));
      if (!parameter.initial.empty()) values[i] = parameter.value_of(parameter.initial);
      std::vector<double> all = values;
      space.repair(all);
      values[i] = all[i];
      continue;
    }
    values[i] = parameter.value_of(named->second);
    if (std::isnan(values[i])) throw Error(concat("parameter '", parameter.name, "' cannot be '", named->second, "'"));
  }
  return values;
}

NamedTexts named_texts(const Space& space, const std::vector<double>& values) {
  NamedTexts texts;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) texts[space.parameters()[i].name] = space.parameters()[i].text_of(values[i]);
  }
  return texts;
}

}  // namespace tw::search
