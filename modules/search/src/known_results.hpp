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

/// A configuration with its loss, or with each of several objectives, as it stands in a table.
struct NamedResult {
  NamedTexts texts;
  std::vector<double> losses;  ///< NaN: missing
};

struct KnownResults {
  std::vector<Individual> individuals = {};  ///< complete, with trial numbers from -1 down
  int64_t skipped = 0;  ///< without a loss, with a parameter missing, with a value that the space lacks, or violating a constraint of it
};

/// Names of several objectives; none, or one: a loss.
using ObjectiveNames = std::vector<std::string>;

/// @param csv with a head: a column `loss`, or for each of several objectives one that is called objective.NAME, or else NAME, and likewise
/// parameter.NAME, or else NAME, for each parameter; others are passed over. In a table that to_csv() wrote, a column without a prefix is none of
/// them. Where there is a column `state`, results are those that are complete or pruned.
/// @throws Error without a column of losses, and where the only column of a parameter's name is that of a loss or of the state
std::vector<NamedResult> results_in_csv(const std::string& csv, const Space& space, const ObjectiveNames& objectives = {});

/// What of them the space has.
KnownResults known_results(const std::vector<NamedResult>& results, const Space& space);

/// @param path a CSV, or the folder of another search's journal. @throws FileError
KnownResults read_known_results(const std::filesystem::path& path, const Space& space, const ObjectiveNames& objectives = {});

}  // namespace tw::search
