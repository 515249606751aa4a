// SPDX-License-Identifier: Apache-2.0
// The description of a search next to its journal, search.json, for programs that have only the folder.
#pragma once
#include <filesystem>
#include <string>
#include <tw/evolution/space.hpp>
#include <tw/search/options.hpp>

namespace tw::search {

struct Description {
  Space space;  ///< without its constraints
  // See SearchOptions.
  int64_t evaluations = 0;
  double seconds = 0;
  double target = 0;
};

/// The file's text. @throws ContractError for names that are not UTF-8
std::string description_of(const Space& space, const SearchOptions& options);
void write_description(const std::filesystem::path& folder, const Space& space, const SearchOptions& options);
/// @throws FileError if there is none, or it cannot be read
Description read_description(const std::filesystem::path& folder);

}  // namespace tw::search
