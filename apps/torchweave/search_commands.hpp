// SPDX-License-Identifier: Apache-2.0
// Commands for a search that may be running. They need only its folder, and no MPI.
#pragma once
#include <string>
#include <vector>

namespace tw::tool {

/// Prints the progress of the search in `folder`.
void print_search_status(const std::string& folder);

/// Makes the search in `folder` try configurations next. @param texts each a JSON object, or a file with one per line
void enqueue_trials(const std::vector<std::string>& texts, const std::string& folder);

}  // namespace tw::tool
