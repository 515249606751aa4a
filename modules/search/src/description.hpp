// SPDX-License-Identifier: Apache-2.0
// What a search is, beside its journal: search.json, for whoever has nothing but the folder.
#pragma once
#include <filesystem>
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

void write_description(const std::filesystem::path& folder, const Space& space, const SearchOptions& options);
/// @throws FileError where there is none
Description read_description(const std::filesystem::path& folder);

}  // namespace tw::search
