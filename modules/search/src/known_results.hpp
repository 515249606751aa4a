// SPDX-License-Identifier: Apache-2.0
// Results from elsewhere that a search begins with.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <tw/evolution/individual.hpp>
#include <tw/evolution/named_values.hpp>
#include <vector>

namespace tw::search {

/// A configuration with its loss, or with each of several objectives, as texts of a table.
struct NamedResult {
  NamedTexts texts;
  std::vector<double> losses;  ///< NaN: missing
};

struct KnownResults {
  std::vector<Individual> individuals = {};  ///< complete, with trial numbers from -1 down
  int64_t skipped = 0;  ///< results without a loss, with a missing parameter, with a value outside the space, or that violate a constraint
};

/// Names of several objectives; one or none: a loss.
using ObjectiveNames = std::vector<std::string>;

/// @param csv table whose first row names the columns: `loss`, or for several objectives objective.NAME, or else NAME, for each; and parameter.NAME,
/// or else NAME, for each parameter. Other columns are ignored. If to_csv() wrote the table, only columns with a prefix are objectives or parameters.
/// If there is a column `state`, only complete and pruned results are used.
/// @throws Error if a column of losses is missing, or if the only column with the name of a parameter is that of a loss or of the state
std::vector<NamedResult> results_in_csv(const std::string& csv, const Space& space, const ObjectiveNames& objectives = {});

/// The results that fit the space.
KnownResults known_results(const std::vector<NamedResult>& results, const Space& space);

/// @param path a CSV file, or the folder of another search's journal. @throws FileError
KnownResults read_known_results(const std::filesystem::path& path, const Space& space, const ObjectiveNames& objectives = {});

}  // namespace tw::search
