// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/config.hpp>
#include <vector>

namespace tw::tool {

/// A line for each key that is set but that the chosen model, optimizer or strategy does not read. That is not an error: a file may hold keys of
/// several of them, of which `--set` chooses one. @param config bound, as read_train_config() and read_search_config() leave it
std::vector<std::string> keys_without_effect(const Config& config);

}  // namespace tw::tool
