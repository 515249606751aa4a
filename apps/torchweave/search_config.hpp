// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <tw/base/config.hpp>
#include <tw/search/options.hpp>
#include <vector>

#include "search_space.hpp"

namespace tw::tool {

/// All that a file's tables [search] and [search.space.NAME] say.
struct SearchConfig {
  search::SearchOptions options = {};
  std::vector<search::Parameter> parameters = {};

  // What trials train, if they do.
  std::filesystem::path base = {};  ///< a training configuration
  std::string figure = "";          ///< "accuracy", "loss", "mae"; empty: the first that there is of accuracy and loss
};

/// Takes every known key out of `config`. @param journal the default. @param trains whether trials train: keys for that are known only then
/// @throws ConfigError with all problems at once
SearchConfig read_search_config(Config& config, const std::filesystem::path& journal, bool trains);

/// Names of propagators with a line about each, for --help.
std::string list_of_propagators();

}  // namespace tw::tool
