// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <tw/base/config.hpp>
#include <tw/search/options.hpp>
#include <vector>

#include "search_space.hpp"

namespace tw::tool {

/// Which trials end early.
struct StoppingOptions {
  std::string rule = "none";            ///< none | median | halving | hyperband | promotion | learning_curve
  search::HalvingOptions halving = {};  ///< its `grace` is of median, too
  int brackets = 3;                     ///< hyperband
  int64_t min_trials = 3;               ///< median
  int64_t min_complete = 5;             ///< learning_curve
  double probability = 0.05;            ///< the same
};
void visit(StoppingOptions& stopping, OptionVisitor& visitor);

/// What a file's tables [search], [search.space.NAME] and [search.start.NAME] say.
struct SearchConfig {
  search::SearchOptions options = {};
  std::string propagator = "automatic";
  StoppingOptions stopping = {};
  std::optional<search::PopulationTrainingOptions> population_training = {};
  std::vector<search::Parameter> parameters = {};
  std::vector<Start> starts = {};

  std::vector<std::string> constraints = {};  ///< what programs tell and is at most 0 where a configuration is allowed

  bool trains = true;               ///< whether trials train, and what
  std::filesystem::path base = {};  ///< a training configuration
  bool test = true;                 ///< the best configuration at the end, on the test set
};

/// The keys under "search." but for parameters.
void visit(SearchConfig& config, OptionVisitor& visitor);

/// Takes every known key out of `config`. @param journal the default. @param trains whether trials train: keys for that are known only then
/// @throws ConfigError with all problems at once
SearchConfig read_search_config(Config& config, const std::filesystem::path& journal, bool trains);

/// Names of propagators with a line about each, for --help.
std::string list_of_propagators();

}  // namespace tw::tool
