// SPDX-License-Identifier: Apache-2.0
// What a user can do with a search that may be running: by its folder, without MPI.
#pragma once
#include <string>
#include <vector>

namespace tw::tool {

/// Prints how far the search in `folder` has come.
void print_search_status(const std::string& folder);

/// Makes the search in `folder` try configurations next. @param texts each a JSON object, or a file with one per line
void enqueue_trials(const std::vector<std::string>& texts, const std::string& folder);

}  // namespace tw::tool
