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
  search::HalvingOptions halving = {};  ///< its `grace` also applies to median and learning_curve
  int brackets = 3;                     ///< hyperband
  int64_t min_trials = 3;               ///< median
  int64_t min_complete = 5;             ///< learning_curve
  double probability = 0.05;            ///< learning_curve
};
void visit(StoppingOptions& stopping, OptionVisitor& visitor);

/// The content of a file's tables [search], [search.space.NAME] and [search.start.NAME].
struct SearchConfig {
  search::SearchOptions options = {};
  std::string propagator = "automatic";
  StoppingOptions stopping = {};
  std::optional<search::PopulationTrainingOptions> population_training = {};
  std::vector<search::Parameter> parameters = {};
  std::vector<Start> starts = {};

  std::vector<std::string> constraints = {};  ///< values that programs report; each is at most 0 if a configuration is allowed

  bool trains = true;               ///< whether trials are trainings; otherwise they run programs
  std::filesystem::path base = {};  ///< file of a training configuration
  bool test = true;                 ///< whether to evaluate the best configuration at the end, on the test set
};

/// Visits the keys under "search.", except those of parameters and starts.
void visit(SearchConfig& config, OptionVisitor& visitor);

/// Reads all keys of `config`. @param journal default of search.journal. @param trains whether trials are trainings: some keys are valid only then
/// @throws ConfigError with all problems at once
SearchConfig read_search_config(Config& config, const std::filesystem::path& journal, bool trains);

/// The names of the propagators, with a line about each, for --help.
std::string list_of_propagators();

}  // namespace tw::tool
