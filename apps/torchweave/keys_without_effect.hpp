// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/config.hpp>
#include <vector>

namespace tw::tool {

/// A line for each key that is set and that the model, optimizer or strategy in force does not read. (A file may hold the keys of several, of which
/// `--set` chooses one: that is no mistake.) @param config bound, as read_train_config() and read_search_config() leave it
std::vector<std::string> keys_without_effect(const Config& config);

}  // namespace tw::tool
