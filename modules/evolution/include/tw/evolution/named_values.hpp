// SPDX-License-Identifier: Apache-2.0
// Configurations as texts by parameter name, as in JSON and tables.
#pragma once
#include <map>
#include <string>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Values as text, by parameter.
using NamedTexts = std::map<std::string, std::string>;

/// How to treat a parameter that exists in a configuration but has no text.
enum class Unnamed {
  refused,  ///< values_of() throws
  starts,   ///< it gets its initial value, or else its first choice or the middle of its scale
};

/// Converts texts to values in the order of the space. Ignores texts of parameters that the other values disable.
/// @throws Error naming the parameter if it is unknown, if its text is missing and `unnamed` is `refused`, or if it has no value of this text
std::vector<double> values_of(const Space& space, const NamedTexts& texts, Unnamed unnamed);

/// The inverse of values_of(): the texts of all parameters that exist.
NamedTexts named_texts(const Space& space, const std::vector<double>& values);

}  // namespace tw::search
