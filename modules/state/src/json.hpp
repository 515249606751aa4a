// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <tw/state/layout.hpp>
#include <vector>

namespace tw {

// How a rank describes its shards to the others.

/// @throws ContractError for names that are not UTF-8.
std::string to_text(const std::vector<ShardSpec>& shards);
/// @param text made by to_text().
std::vector<ShardSpec> parse_shards(std::string_view text);

}  // namespace tw
