// SPDX-License-Identifier: Apache-2.0
// Configurations by the names of their parameters, as they stand in JSON and in tables.
#pragma once
#include <map>
#include <string>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Values as text, by parameter.
using NamedTexts = std::map<std::string, std::string>;

/// What becomes of a parameter that exists, and is not named.
enum class Unnamed {
  refused,
  starts,  ///< it has the value at which the space starts, or else the first choice or the middle of its scale
};

/// Texts of parameters that do not exist under the values of others are passed over.
/// @throws Error naming the parameter: there is none of this name, this is none of its values, or it is missing
std::vector<double> values_of(const Space& space, const NamedTexts& texts, Unnamed unnamed);

/// The inverse: the texts of all parameters that exist.
NamedTexts named_texts(const Space& space, const std::vector<double>& values);

}  // namespace tw::search
