// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tw {

/// The candidate with the smallest edit distance (Levenshtein) to `name`; the first of equals; "" without candidates.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace tw
