// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tw {

/// The candidate with the smallest edit distance (Levenshtein) to `name`; the first one in a tie; "" without candidates.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);
/// The end of an error about an unknown name, such as: ; did you mean 'row'? Empty without candidates. @param quote stands around the candidate
std::string suggestion(std::string_view name, std::span<const std::string> candidates, std::string_view quote = "'");
/// The text that follows the key in an error about a `name` that is not among `choices`, such as: is "colum", but must be one of "row", "column".
std::string unknown_text(std::string_view name, std::span<const std::string> choices);

}  // namespace tw
