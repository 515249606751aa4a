// SPDX-License-Identifier: Apache-2.0
// Results from elsewhere that a search begins with.
#pragma once
#include <cstdint>
#include <filesystem>
#include <tw/evolution/individual.hpp>
#include <tw/evolution/named_values.hpp>
#include <vector>

namespace tw::search {

/// A configuration with its loss, as it stands in a table.
struct NamedResult {
  NamedTexts texts;
  double loss;
};

struct KnownResults {
  std::vector<Individual> individuals = {};  ///< complete, with trial numbers from -1 down
  int64_t skipped = 0;                       ///< without a loss, with a parameter missing, or with a value that the space does not have
};

/// @param csv with a head: a column `loss`, and for each parameter one that is called parameter.NAME or NAME; others are passed over. Where there is
/// a column `state`, results are those that are complete or pruned. @throws Error without a column of losses
std::vector<NamedResult> results_in_csv(const std::string& csv, const Space& space);

/// What of them the space has.
KnownResults known_results(const std::vector<NamedResult>& results, const Space& space);

/// @param path a CSV, or the folder of another search's journal. @throws FileError
KnownResults read_known_results(const std::filesystem::path& path, const Space& space);

}  // namespace tw::search
