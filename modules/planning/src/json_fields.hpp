// SPDX-License-Identifier: Apache-2.0
// Reading JSON with errors that name the field.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <type_traits>

namespace tw::pipeline {

/// @throws Error if `text` is not JSON; its message begins with `what`
inline nlohmann::json parse_json(std::string_view text, const char* what) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(concat(what, " is not JSON: ", error.what()));
  }
}

/// Field `name` of `object`, whose path in the file is `where`.
template <class T>
T field(const nlohmann::json& object, const char* name, const std::string& where) {
  if (!object.is_object()) throw Error(concat(where, " is not an object"));
  const auto found = object.find(name);
  if (found == object.end()) throw Error(concat(where, '.', name, " is missing"));
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (!found->is_number_integer()) throw Error(concat(where, '.', name, " has the wrong type: ", found->dump()));
    const auto value = found->template get<int64_t>();
    if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
      throw Error(concat(where, '.', name, " is out of range: ", found->dump()));
    }
  }
  try {
    return found->template get<T>();
  } catch (const nlohmann::json::exception&) {
    throw Error(concat(where, '.', name, " has the wrong type: ", found->dump()));
  }
}

/// @throws Error if `object` has a different version of its format. Files written before formats had versions are of version 1.
inline void expect_version(const nlohmann::json& object, int64_t supported, const std::string& where) {
  const int64_t found = object.contains("version") ? field<int64_t>(object, "version", where) : 1;
  if (found != supported) throw Error(concat(where, ".version is ", found, ", but only version ", supported, " is supported"));
}

/// @throws Error naming a field that is not in `known`
inline void refuse_others(const nlohmann::json& object, std::initializer_list<std::string_view> known, const std::string& where) {
  if (!object.is_object()) throw Error(concat(where, " is not an object"));
  for (const auto& entry : object.items()) {
    if (std::find(known.begin(), known.end(), entry.key()) == known.end()) throw Error(concat(where, '.', entry.key(), " is not a known field"));
  }
}

}  // namespace tw::pipeline
